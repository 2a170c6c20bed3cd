import select
import socket

BUFFER = 4096


class ChatServer:
    def __init__(self, host="0.0.0.0", port=5555):
        self.server = socket.socket()
        self.server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.server.bind((host, port))
        self.server.listen(20)
        self.names = {}
        print(f"chat on {host}:{port}")

    def send_all(self, text, skip=None):
        for sock in list(self.names):
            if sock is not skip:
                try:
                    sock.sendall(text.encode() + b"\n")
                except OSError:
                    self.drop(sock)

    def drop(self, sock):
        name = self.names.pop(sock, None)
        sock.close()
        if name:
            self.send_all(f"* {name} left")

    def accept(self):
        conn, addr = self.server.accept()
        self.names[conn] = f"guest{addr[1]}"
        conn.sendall(b"Welcome! Use /nick NAME to change your name.\n")
        self.send_all(f"* {self.names[conn]} joined", skip=conn)

    def receive(self, sock):
        try:
            data = sock.recv(BUFFER)
        except ConnectionResetError:
            data = b""
        if not data:
            return self.drop(sock)
        text = data.decode("utf-8", "replace").strip()
        if text.startswith("/nick "):
            old, new = self.names[sock], text[6:].strip()[:16]
            self.names[sock] = new
            self.send_all(f"* {old} is now {new}")
        elif text == "/quit":
            self.drop(sock)
        elif text:
            self.send_all(f"<{self.names[sock]}> {text}", skip=sock)

    def serve(self):
        while True:
            readable, _, _ = select.select([self.server, *self.names], [], [])
            for sock in readable:
                self.accept() if sock is self.server else self.receive(sock)


if __name__ == "__main__":
    try:
        ChatServer().serve()
    except KeyboardInterrupt:
        print("bye")
