"""Rename photos by their EXIF date."""
import argparse
from collections import Counter
from datetime import datetime
from pathlib import Path

from PIL import Image

DATETIME_ORIGINAL = 36867


def taken_at(path: Path) -> datetime:
    try:
        exif = Image.open(path)._getexif() or {}
        value = exif.get(DATETIME_ORIGINAL)
        if value:
            return datetime.strptime(value, "%Y:%m:%d %H:%M:%S")
    except Exception:
        pass
    return datetime.fromtimestamp(path.stat().st_mtime)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--apply", action="store_true", help="really rename (default: preview)")
    args = parser.parse_args()

    photos = [p for p in args.folder.iterdir() if p.suffix.lower() in (".jpg", ".jpeg")]
    photos.sort(key=taken_at)
    counter = Counter()
    for photo in photos:
        day = taken_at(photo).strftime("%Y-%m-%d")
        counter[day] += 1
        new = photo.with_name(f"{day}_{counter[day]:03d}.jpg")
        if new == photo:
            continue
        print(f"{photo.name} -> {new.name}")
        if args.apply:
            if new.exists():
                print("   target exists, skipped")
                continue
            photo.rename(new)


if __name__ == "__main__":
    main()
