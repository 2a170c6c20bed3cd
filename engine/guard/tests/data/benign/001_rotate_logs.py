#!/usr/bin/env python3
"""Rotate log files: compress old ones and remove archives past the retention count."""
import argparse
import gzip
import logging
import shutil
import time
from pathlib import Path

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
log = logging.getLogger("rotate")


def compress(path: Path) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(path.stat().st_mtime))
    target = path.with_name(f"{path.stem}-{stamp}.log.gz")
    with path.open("rb") as src, gzip.open(target, "wb") as dst:
        shutil.copyfileobj(src, dst)
    path.unlink()
    return target


def prune(directory: Path, stem: str, keep: int) -> None:
    archives = sorted(directory.glob(f"{stem}-*.log.gz"), key=lambda p: p.stat().st_mtime)
    for old in archives[:-keep] if keep else archives:
        log.info("removing %s", old)
        old.unlink()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--keep", type=int, default=7)
    parser.add_argument("--max-age-hours", type=float, default=24)
    args = parser.parse_args()

    cutoff = time.time() - args.max_age_hours * 3600
    for path in args.directory.glob("*.log"):
        if path.stat().st_mtime < cutoff:
            archive = compress(path)
            log.info("compressed %s -> %s", path.name, archive.name)
            prune(args.directory, path.stem, args.keep)


if __name__ == "__main__":
    main()
