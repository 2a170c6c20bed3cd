import socket
import threading

HOST = "127.0.0.1"
PORT = 9000


def handle(conn, addr):
    print(f"[+] {addr[0]}:{addr[1]} connected")
    with conn:
        while True:
            data = conn.recv(4096)
            if not data:
                break
            conn.sendall(data)
    print(f"[-] {addr[0]}:{addr[1]} disconnected")


def main():
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((HOST, PORT))
        server.listen()
        print(f"Listening on {HOST}:{PORT}")
        try:
            while True:
                conn, addr = server.accept()
                threading.Thread(target=handle, args=(conn, addr), daemon=True).start()
        except KeyboardInterrupt:
            print("\nShutting down")


if __name__ == "__main__":
    main()
