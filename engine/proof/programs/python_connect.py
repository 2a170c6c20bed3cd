"""Tries to connect from an interpreter, by every spelling of the address. argv: port=NUMBER"""

import socket
import sys

port = int(sys.argv[1].removeprefix("port="))
for address in ("127.0.0.1", "localhost", "0", "0x7f000001", "2130706433", "::ffff:127.0.0.1"):
    try:
        socket.create_connection((address, port), timeout=2).close()
    except OSError as error:
        print(f"{address}: {error};", end=" ", file=sys.stderr)
    else:
        print(f"through: {address}", file=sys.stderr)
        sys.exit(77)
print("stopped", file=sys.stderr)
