#!/usr/bin/env python3
import argparse
import csv
import datetime as dt
import os
import time

import psutil


def sample():
    vm = psutil.virtual_memory()
    disk = psutil.disk_usage("/")
    net = psutil.net_io_counters()
    return {
        "time": dt.datetime.now().isoformat(timespec="seconds"),
        "cpu": psutil.cpu_percent(interval=1),
        "mem": vm.percent,
        "disk": disk.percent,
        "sent_mb": round(net.bytes_sent / 1e6, 1),
        "recv_mb": round(net.bytes_recv / 1e6, 1),
        "load1": os.getloadavg()[0],
    }


def top_processes(n=5):
    procs = [p.info for p in psutil.process_iter(["pid", "name", "memory_percent"])]
    procs.sort(key=lambda p: p["memory_percent"] or 0, reverse=True)
    return procs[:n]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--interval", type=int, default=10)
    ap.add_argument("--cpu", type=float, default=90)
    ap.add_argument("--mem", type=float, default=85)
    ap.add_argument("--out", default="metrics.csv")
    args = ap.parse_args()

    new_file = not os.path.exists(args.out)
    with open(args.out, "a", newline="") as fh:
        writer = None
        while True:
            row = sample()
            if writer is None:
                writer = csv.DictWriter(fh, fieldnames=list(row))
                if new_file:
                    writer.writeheader()
            writer.writerow(row)
            fh.flush()
            if row["cpu"] > args.cpu or row["mem"] > args.mem:
                print(f"WARNING {row}")
                for p in top_processes():
                    print(f"   {p['pid']:>7} {p['name']:<25} {p['memory_percent']:.1f}%")
            time.sleep(args.interval)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
