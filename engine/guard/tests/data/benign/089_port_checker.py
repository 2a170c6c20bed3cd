import socket
import sys
from contextlib import closing

PORTS = {"postgres": 5432, "redis": 6379, "api": 8000, "frontend": 3000}


def in_use(port, host="127.0.0.1"):
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as s:
        s.settimeout(0.5)
        return s.connect_ex((host, port)) == 0


def main():
    conflicts = 0
    for name, port in PORTS.items():
        busy = in_use(port)
        conflicts += busy
        print(f"{name:<10} {port:<6} {'IN USE' if busy else 'free'}")
    if conflicts:
        print(f"\n{conflicts} port(s) already taken. Find the process with: lsof -i :PORT")
    return 1 if conflicts else 0


if __name__ == "__main__":
    sys.exit(main())
