import os
import shutil
import socket
import time
from datetime import datetime, timezone

import requests
from dotenv import load_dotenv

load_dotenv()

DISCORD_WEBHOOK = os.getenv("DISCORD_WEBHOOK_URL")
INTERVAL = int(os.getenv("CHECK_INTERVAL", "3600"))
MOUNTS = os.getenv("MOUNTS", "/,/home").split(",")


def collect():
    rows = []
    for mount in MOUNTS:
        try:
            usage = shutil.disk_usage(mount)
        except FileNotFoundError:
            continue
        pct = usage.used / usage.total * 100
        rows.append((mount, pct, usage.free / 1024**3))
    return rows


def build_embed(rows):
    worst = max((pct for _, pct, _ in rows), default=0)
    color = 0x2ECC71 if worst < 75 else 0xF1C40F if worst < 90 else 0xE74C3C
    return {
        "title": f"Disk usage on {socket.gethostname()}",
        "color": color,
        "timestamp": datetime.now(timezone.utc).isoformat(),
        "fields": [
            {"name": m, "value": f"{pct:.1f}% used, {free:.1f} GiB free", "inline": True}
            for m, pct, free in rows
        ],
    }


while True:
    try:
        r = requests.post(DISCORD_WEBHOOK, json={"embeds": [build_embed(collect())]}, timeout=15)
        if r.status_code == 429:
            time.sleep(r.json().get("retry_after", 5))
            continue
        r.raise_for_status()
    except requests.RequestException as e:
        print(f"could not post: {e}")
    time.sleep(INTERVAL)
