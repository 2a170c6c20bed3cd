#!/usr/bin/env python3
"""One-way directory synchronisation."""
import argparse
import filecmp
import shutil
from pathlib import Path


def sync(src: Path, dst: Path, delete: bool, dry: bool) -> dict:
    stats = {"copied": 0, "deleted": 0, "same": 0}
    wanted = set()
    for item in src.rglob("*"):
        rel = item.relative_to(src)
        wanted.add(rel)
        target = dst / rel
        if item.is_dir():
            if not dry:
                target.mkdir(parents=True, exist_ok=True)
            continue
        if target.exists() and filecmp.cmp(item, target, shallow=True):
            stats["same"] += 1
            continue
        print(f"copy   {rel}")
        stats["copied"] += 1
        if not dry:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(item, target)

    if delete and dst.exists():
        extra = [p for p in dst.rglob("*") if p.relative_to(dst) not in wanted]
        for path in sorted(extra, key=lambda p: len(p.parts), reverse=True):
            print(f"delete {path.relative_to(dst)}")
            stats["deleted"] += 1
            if not dry:
                path.rmdir() if path.is_dir() else path.unlink()
    return stats


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("src", type=Path)
    p.add_argument("dst", type=Path)
    p.add_argument("--delete", action="store_true", help="remove files missing in the source")
    p.add_argument("-n", "--dry-run", action="store_true")
    a = p.parse_args()
    if not a.src.is_dir():
        p.error(f"{a.src} is not a directory")
    print(sync(a.src, a.dst, a.delete, a.dry_run))
