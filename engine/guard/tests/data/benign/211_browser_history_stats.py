import collections
import datetime
import shutil
import sqlite3
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit


def find_db():
    base = Path.home() / ".mozilla" / "firefox"
    candidates = sorted(base.glob("*/places.sqlite"), key=lambda p: p.stat().st_mtime)
    if not candidates:
        sys.exit("no Firefox profile found")
    return candidates[-1]


def visits(db_path):
    # Firefox locks the database, so work on a copy
    with tempfile.TemporaryDirectory() as tmp:
        copy = Path(tmp) / "places.sqlite"
        shutil.copy(db_path, copy)
        conn = sqlite3.connect(copy)
        yield from conn.execute(
            "SELECT p.url, v.visit_date / 1000000 FROM moz_historyvisits v JOIN moz_places p ON p.id = v.place_id"
        )
        conn.close()


def main():
    months = collections.defaultdict(collections.Counter)
    for url, ts in visits(find_db()):
        host = urlsplit(url).hostname or ""
        host = host.removeprefix("www.")
        if host:
            months[datetime.datetime.fromtimestamp(ts).strftime("%Y-%m")][host] += 1
    for month in sorted(months):
        total = sum(months[month].values())
        print(f"\n{month} ({total} visits)")
        for host, n in months[month].most_common(8):
            print(f"  {n:>6}  {n / total:5.1%}  {host}")


if __name__ == "__main__":
    main()
