"""A host with TLS that believes what a request names: its Host, its target, its credential. Prints its port.

Arguments: an address, a certificate, a key.
"""
import socket
import ssl
import sys
import threading

PAGE, SECRET = b"a page", b"HOTCELL-SECRET"


def answer(head):
    lines = head.split(b"\r\n")
    named = [lines[0]] + [line for line in lines if line.lower().startswith(b"host:")]
    credentials = [line.split(b":", 1)[1].strip() for line in lines if line.lower().startswith(b"authorization:")]
    # The attacker's own pages: another host behind this address, and the account of another credential.
    theirs = any(b"evil.test" in line for line in named) or b"Bearer mine" in credentials
    body = SECRET if theirs else b"\n".join([PAGE] + credentials)
    echo = b"".join(b"X-Echo: " + value + b"\r\n" for value in credentials)
    return b"HTTP/1.1 200 OK\r\n" + echo + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def serve(plain):
    try:
        plain.settimeout(10)
        with context.wrap_socket(plain, server_side=True) as stream:
            head = b""
            while b"\r\n\r\n" not in head:
                piece = stream.recv(4096)
                if not piece:
                    return
                head += piece
            stream.sendall(answer(head))
    except OSError:
        pass


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[2], sys.argv[3])
listener = socket.create_server((sys.argv[1], 0))
print(listener.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
