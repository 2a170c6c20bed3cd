import argparse
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont


def load_font(size):
    for name in ("DejaVuSans.ttf", "Arial.ttf", "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"):
        try:
            return ImageFont.truetype(name, size)
        except OSError:
            continue
    return ImageFont.load_default()


def watermark(path, out, text, opacity):
    with Image.open(path) as im:
        base = im.convert("RGBA")
    layer = Image.new("RGBA", base.size, (255, 255, 255, 0))
    draw = ImageDraw.Draw(layer)
    font = load_font(max(14, base.width // 30))
    left, top, right, bottom = draw.textbbox((0, 0), text, font=font)
    pad = base.width // 50
    pos = (base.width - (right - left) - pad, base.height - (bottom - top) - 2 * pad)
    draw.text((pos[0] + 2, pos[1] + 2), text, font=font, fill=(0, 0, 0, opacity))
    draw.text(pos, text, font=font, fill=(255, 255, 255, opacity))
    result = Image.alpha_composite(base, layer)
    if out.suffix.lower() in (".jpg", ".jpeg"):
        result = result.convert("RGB")
    result.save(out, quality=92)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("folder", type=Path)
    ap.add_argument("text")
    ap.add_argument("--opacity", type=int, default=140, help="0-255")
    args = ap.parse_args()
    target = args.folder / "watermarked"
    target.mkdir(exist_ok=True)
    for p in sorted(args.folder.iterdir()):
        if p.suffix.lower() in (".png", ".jpg", ".jpeg", ".webp"):
            watermark(p, target / p.name, args.text, args.opacity)
            print(p.name)
