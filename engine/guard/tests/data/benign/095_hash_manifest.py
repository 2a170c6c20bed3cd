#!/usr/bin/env python3
import argparse
import hashlib
import sys
from pathlib import Path


def digest(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def create(root, manifest):
    with open(manifest, "w") as out:
        for path in sorted(root.rglob("*")):
            if path.is_file() and path != manifest:
                out.write(f"{digest(path)}  {path.relative_to(root)}\n")


def verify(root, manifest):
    bad = 0
    for line in open(manifest):
        expected, name = line.rstrip("\n").split("  ", 1)
        path = root / name
        if not path.exists():
            print(f"{name}: MISSING")
            bad += 1
        elif digest(path) != expected:
            print(f"{name}: FAILED")
            bad += 1
    print("all files OK" if not bad else f"{bad} problem(s)")
    return bad


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("action", choices=("create", "verify"))
    ap.add_argument("root", type=Path)
    ap.add_argument("-m", "--manifest", type=Path)
    args = ap.parse_args()
    manifest = args.manifest or args.root / "SHA256SUMS"
    if args.action == "create":
        create(args.root, manifest)
    else:
        sys.exit(1 if verify(args.root, manifest) else 0)
