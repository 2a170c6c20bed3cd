#!/usr/bin/env python3
"""
Find duplicate files by size, then by SHA-256.

Usage:
    python dedupe_files.py ~/Pictures
    python dedupe_files.py ~/Pictures --delete
"""
import argparse
import hashlib
import os
from collections import defaultdict


def sha256_of(path, chunk_size=1 << 20):
    digest = hashlib.sha256()
    with open(path, "rb") as fh:
        while chunk := fh.read(chunk_size):
            digest.update(chunk)
    return digest.hexdigest()


def find_duplicates(root):
    by_size = defaultdict(list)
    for dirpath, _, filenames in os.walk(root):
        for name in filenames:
            full = os.path.join(dirpath, name)
            if os.path.islink(full):
                continue
            try:
                by_size[os.path.getsize(full)].append(full)
            except OSError as exc:
                print(f"skip {full}: {exc}")

    by_hash = defaultdict(list)
    for paths in by_size.values():
        if len(paths) < 2:
            continue
        for path in paths:
            by_hash[sha256_of(path)].append(path)
    return {h: p for h, p in by_hash.items() if len(p) > 1}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("root")
    ap.add_argument("--delete", action="store_true", help="delete all but the oldest copy")
    args = ap.parse_args()

    wasted = 0
    for digest, paths in find_duplicates(args.root).items():
        paths.sort(key=os.path.getmtime)
        print(f"\n{digest[:12]}")
        print(f"  keep   {paths[0]}")
        for dup in paths[1:]:
            wasted += os.path.getsize(dup)
            if args.delete:
                os.remove(dup)
                print(f"  delete {dup}")
            else:
                print(f"  dup    {dup}")
    print(f"\n{wasted / 1024 / 1024:.1f} MiB {'freed' if args.delete else 'could be freed'}")


if __name__ == "__main__":
    main()
