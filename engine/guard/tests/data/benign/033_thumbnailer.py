from pathlib import Path
import argparse

from PIL import Image, ImageOps, UnidentifiedImageError

EXTENSIONS = {".jpg", ".jpeg", ".png", ".webp", ".gif"}


def make_thumbnail(src: Path, dst: Path, size: int) -> None:
    with Image.open(src) as im:
        im = ImageOps.exif_transpose(im)
        im.thumbnail((size, size), Image.LANCZOS)
        if im.mode in ("RGBA", "P"):
            im = im.convert("RGB")
        dst.parent.mkdir(parents=True, exist_ok=True)
        im.save(dst, "JPEG", quality=85, optimize=True)


def main():
    p = argparse.ArgumentParser(description="Create JPEG thumbnails")
    p.add_argument("source", type=Path)
    p.add_argument("-o", "--output", type=Path, default=Path("thumbs"))
    p.add_argument("-s", "--size", type=int, default=256)
    args = p.parse_args()

    done = 0
    for src in sorted(args.source.rglob("*")):
        if src.suffix.lower() not in EXTENSIONS:
            continue
        dst = (args.output / src.relative_to(args.source)).with_suffix(".jpg")
        if dst.exists() and dst.stat().st_mtime >= src.stat().st_mtime:
            continue
        try:
            make_thumbnail(src, dst, args.size)
            done += 1
        except (UnidentifiedImageError, OSError) as e:
            print(f"skipping {src}: {e}")
    print(f"{done} thumbnails created")


if __name__ == "__main__":
    main()
