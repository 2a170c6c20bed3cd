#!/usr/bin/env python3
"""Stop the process that listens on a port: kill_port.py 3000"""
import sys

import psutil


def listeners(port):
    pids = set()
    for conn in psutil.net_connections(kind="inet"):
        if conn.laddr and conn.laddr.port == port and conn.status == psutil.CONN_LISTEN and conn.pid:
            pids.add(conn.pid)
    return [psutil.Process(pid) for pid in pids]


def main():
    if len(sys.argv) < 2 or not sys.argv[1].isdigit():
        sys.exit("usage: kill_port.py PORT [--force]")
    port = int(sys.argv[1])
    force = "--force" in sys.argv
    try:
        procs = listeners(port)
    except psutil.AccessDenied:
        sys.exit("need more privileges, try sudo")
    if not procs:
        print(f"nothing listens on port {port}")
        return
    for p in procs:
        print(f"{p.pid} {p.name()}: {' '.join(p.cmdline())[:80]}")
        if not force and input("terminate? [y/N] ").lower() != "y":
            continue
        p.terminate()
    _, alive = psutil.wait_procs(procs, timeout=3)
    for p in alive:
        if force:
            p.kill()
            print(f"killed {p.pid}")


if __name__ == "__main__":
    main()
