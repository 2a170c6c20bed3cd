"""Open an SSH tunnel through the bastion host and start psql on it."""
import argparse
import contextlib
import os
import socket
import subprocess
import sys
import time


def free_port():
    with contextlib.closing(socket.socket()) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextlib.contextmanager
def tunnel(bastion, host, port):
    local = free_port()
    proc = subprocess.Popen(
        ["ssh", "-N", "-o", "ExitOnForwardFailure=yes", "-o", "ServerAliveInterval=30", "-L", f"{local}:{host}:{port}", bastion]
    )
    try:
        for _ in range(50):
            if proc.poll() is not None:
                sys.exit("ssh could not open the tunnel")
            try:
                socket.create_connection(("127.0.0.1", local), timeout=0.2).close()
                break
            except OSError:
                time.sleep(0.2)
        yield local
    finally:
        proc.terminate()
        proc.wait(5)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--bastion", default=os.environ.get("BASTION", "bastion.example.com"))
    ap.add_argument("--db-host", default="db.internal")
    ap.add_argument("--db-port", type=int, default=5432)
    ap.add_argument("--user", default=os.environ.get("PGUSER", "readonly"))
    ap.add_argument("database")
    ap.add_argument("psql_args", nargs="*")
    args = ap.parse_args()
    with tunnel(args.bastion, args.db_host, args.db_port) as port:
        subprocess.call(["psql", "-h", "127.0.0.1", "-p", str(port), "-U", args.user, args.database, *args.psql_args])


if __name__ == "__main__":
    main()
