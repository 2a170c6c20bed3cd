#!/usr/bin/env python3
"""Move old files to an archive while keeping the directory layout."""
import argparse
import shutil
import time
from pathlib import Path


def is_old(path, cutoff):
    st = path.stat()
    return max(st.st_atime, st.st_mtime) < cutoff


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("source", type=Path)
    ap.add_argument("archive", type=Path)
    ap.add_argument("--days", type=int, default=180)
    ap.add_argument("--link", action="store_true", help="leave a symlink behind")
    ap.add_argument("-n", "--dry-run", action="store_true")
    args = ap.parse_args()

    cutoff = time.time() - args.days * 86400
    moved = size = 0
    for path in sorted(args.source.rglob("*")):
        if path.is_symlink() or not path.is_file() or not is_old(path, cutoff):
            continue
        target = args.archive / path.relative_to(args.source)
        print(f"{path} -> {target}")
        moved += 1
        size += path.stat().st_size
        if args.dry_run:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(str(path), str(target))
        if args.link:
            path.symlink_to(target.resolve())

    if not args.dry_run:
        for d in sorted((p for p in args.source.rglob("*") if p.is_dir()), reverse=True):
            try:
                d.rmdir()  # only succeeds for empty folders
            except OSError:
                pass
    print(f"{moved} files, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
