#!/usr/bin/env python3
"""Report the state of this machine to the inventory service (run daily from cron)."""
import getpass
import json
import os
import platform
import shutil
import socket
import subprocess
import uuid

import psutil
import requests

SERVER = os.environ.get("INVENTORY_URL", "https://inventory.example.com/api/machines")
TOKEN = os.environ.get("INVENTORY_TOKEN", "")


def packages():
    if shutil.which("dpkg-query"):
        out = subprocess.check_output(["dpkg-query", "-W", "-f", "${Package} ${Version}\n"], text=True)
        return dict(line.split(" ", 1) for line in out.splitlines())
    if shutil.which("rpm"):
        out = subprocess.check_output(["rpm", "-qa", "--qf", "%{NAME} %{VERSION}\n"], text=True)
        return dict(line.split(" ", 1) for line in out.splitlines())
    return {}


def collect():
    return {
        "hostname": socket.gethostname(),
        "machine_id": f"{uuid.getnode():012x}",
        "os": platform.platform(),
        "python": platform.python_version(),
        "cpu": {"model": platform.processor(), "cores": psutil.cpu_count(logical=False)},
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "disks": [
            {"mount": p.mountpoint, "fs": p.fstype, "gb": round(psutil.disk_usage(p.mountpoint).total / 1e9)}
            for p in psutil.disk_partitions()
        ],
        "addresses": {
            nic: [a.address for a in addrs if a.family == socket.AF_INET]
            for nic, addrs in psutil.net_if_addrs().items()
        },
        "reported_by": getpass.getuser(),
        "packages": packages(),
    }


if __name__ == "__main__":
    data = collect()
    if not TOKEN:
        print(json.dumps(data, indent=2))
    else:
        r = requests.post(SERVER, json=data, headers={"Authorization": f"Token {TOKEN}"}, timeout=30)
        r.raise_for_status()
        print("reported", data["hostname"])
