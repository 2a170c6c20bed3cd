"""Delete backups that are not needed by the grandfather-father-son scheme."""
import argparse
import re
from datetime import datetime
from pathlib import Path

STAMP = re.compile(r"(\d{4})-?(\d{2})-?(\d{2})[_T-]?(\d{2})?:?(\d{2})?")


def timestamp(path):
    m = STAMP.search(path.name)
    if not m:
        return None
    y, mo, d, h, mi = (int(g or 0) for g in m.groups())
    try:
        return datetime(y, mo, d, h, mi)
    except ValueError:
        return None


def select(backups, daily, weekly, monthly):
    keep = {}
    rules = (("daily", "%Y-%m-%d", daily), ("weekly", "%G-%V", weekly), ("monthly", "%Y-%m", monthly))
    for label, fmt, count in rules:
        seen = set()
        for when, path in backups:  # newest first
            key = when.strftime(fmt)
            if key in seen:
                continue
            if len(seen) >= count:
                break
            seen.add(key)
            keep.setdefault(path, []).append(label)
    return keep


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("folder", type=Path)
    ap.add_argument("--pattern", default="*.tar.gz")
    ap.add_argument("--daily", type=int, default=7)
    ap.add_argument("--weekly", type=int, default=4)
    ap.add_argument("--monthly", type=int, default=12)
    ap.add_argument("--delete", action="store_true")
    args = ap.parse_args()
    backups = sorted(((t, p) for p in args.folder.glob(args.pattern) if (t := timestamp(p))), reverse=True)
    keep = select(backups, args.daily, args.weekly, args.monthly)
    for _, path in backups:
        if path in keep:
            print(f"keep   {path.name} ({', '.join(keep[path])})")
        else:
            print(f"{'delete' if args.delete else 'would delete'} {path.name}")
            if args.delete:
                path.unlink()


if __name__ == "__main__":
    main()
