import argparse
import time
from datetime import datetime
from pathlib import Path

import mss
from PIL import Image, ImageChops


def grab(sct, region):
    shot = sct.grab(region)
    return Image.frombytes("RGB", shot.size, shot.rgb)


def changed_percent(a, b):
    diff = ImageChops.difference(a, b).convert("L").point(lambda v: 255 if v > 24 else 0)
    histogram = diff.histogram()
    return histogram[255] / (a.width * a.height) * 100


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("left", type=int)
    ap.add_argument("top", type=int)
    ap.add_argument("width", type=int)
    ap.add_argument("height", type=int)
    ap.add_argument("--interval", type=float, default=60)
    ap.add_argument("--threshold", type=float, default=1.0)
    ap.add_argument("--out", type=Path, default=Path("changes"))
    ap.add_argument("--keep", type=int, default=200)
    args = ap.parse_args()
    args.out.mkdir(exist_ok=True)
    region = {k: getattr(args, k) for k in ("left", "top", "width", "height")}
    with mss.mss() as sct:
        last = grab(sct, region)
        while True:
            time.sleep(args.interval)
            current = grab(sct, region)
            pct = changed_percent(last, current)
            if pct >= args.threshold:
                name = args.out / f"{datetime.now():%Y%m%d_%H%M%S}.png"
                current.save(name)
                print(f"{pct:.1f}% changed -> {name}")
                for old in sorted(args.out.glob("*.png"))[: -args.keep]:
                    old.unlink()
            last = current


if __name__ == "__main__":
    main()
