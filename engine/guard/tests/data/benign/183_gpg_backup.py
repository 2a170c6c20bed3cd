#!/usr/bin/env python3
import argparse
import datetime
import subprocess
import sys
from pathlib import Path


def main():
    ap = argparse.ArgumentParser(description="Encrypted folder backup")
    ap.add_argument("folder", type=Path)
    ap.add_argument("dest", type=Path)
    ap.add_argument("-r", "--recipient", required=True, help="gpg key id or mail address")
    ap.add_argument("-k", "--keep", type=int, default=5)
    args = ap.parse_args()

    args.dest.mkdir(parents=True, exist_ok=True)
    stamp = datetime.datetime.now().strftime("%Y%m%d_%H%M%S")
    out = args.dest / f"{args.folder.name}_{stamp}.tar.gz.gpg"

    tar = subprocess.Popen(
        ["tar", "-C", str(args.folder.parent), "-cz", args.folder.name], stdout=subprocess.PIPE
    )
    gpg = subprocess.Popen(
        ["gpg", "--batch", "--yes", "--encrypt", "--recipient", args.recipient, "--output", str(out)],
        stdin=tar.stdout,
    )
    tar.stdout.close()
    gpg.wait()
    tar.wait()
    if gpg.returncode or tar.returncode:
        out.unlink(missing_ok=True)
        sys.exit(f"backup failed (tar={tar.returncode}, gpg={gpg.returncode})")
    print(f"{out} {out.stat().st_size / 1e6:.1f} MB")

    archives = sorted(args.dest.glob(f"{args.folder.name}_*.tar.gz.gpg"))
    for old in archives[: -args.keep]:
        print("removing", old.name)
        old.unlink()


if __name__ == "__main__":
    main()
