import argparse
import os
import time
from pathlib import Path

import redis
from prometheus_client import Counter, Gauge, Histogram, start_http_server

QUEUE_LENGTH = Gauge("queue_length", "Jobs waiting", ["queue"])
BACKUP_AGE = Gauge("backup_age_seconds", "Age of the newest backup file")
BACKUP_SIZE = Gauge("backup_size_bytes", "Size of the newest backup file")
ERRORS = Counter("exporter_errors_total", "Collection errors", ["source"])
DURATION = Histogram("exporter_collect_seconds", "Time used to collect")


def collect_queues(conn, queues):
    for q in queues:
        QUEUE_LENGTH.labels(q).set(conn.llen(q))


def collect_backups(folder):
    files = [p for p in Path(folder).glob("*.dump") if p.is_file()]
    if not files:
        raise FileNotFoundError("no backups")
    newest = max(files, key=lambda p: p.stat().st_mtime)
    BACKUP_AGE.set(time.time() - newest.stat().st_mtime)
    BACKUP_SIZE.set(newest.stat().st_size)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--port", type=int, default=9300)
    ap.add_argument("--queues", nargs="+", default=["default", "mail"])
    ap.add_argument("--backups", default="/var/backups/postgres")
    ap.add_argument("--interval", type=float, default=15)
    args = ap.parse_args()
    conn = redis.Redis.from_url(os.environ.get("REDIS_URL", "redis://localhost"))
    start_http_server(args.port)
    while True:
        with DURATION.time():
            for name, fn in (("redis", lambda: collect_queues(conn, args.queues)), ("backup", lambda: collect_backups(args.backups))):
                try:
                    fn()
                except Exception as e:
                    ERRORS.labels(name).inc()
                    print(f"{name}: {e}")
        time.sleep(args.interval)


if __name__ == "__main__":
    main()
