import socket
import sys


def main(host="127.0.0.1", port=9000):
    try:
        sock = socket.create_connection((host, port), timeout=5)
    except OSError as exc:
        sys.exit(f"Could not connect to {host}:{port}: {exc}")

    with sock:
        print("Connected. Type a message and press enter (Ctrl-D to quit).")
        for line in sys.stdin:
            sock.sendall(line.encode("utf-8"))
            reply = sock.recv(4096)
            if not reply:
                print("Server closed the connection.")
                break
            print("echo:", reply.decode("utf-8", errors="replace").rstrip())


if __name__ == "__main__":
    host = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1"
    port = int(sys.argv[2]) if len(sys.argv) > 2 else 9000
    main(host, port)
