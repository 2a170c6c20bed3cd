import argparse
import re
import shutil
from pathlib import Path

from mutagen import File, MutagenError


def clean(text, fallback):
    text = re.sub(r'[<>:"/\\|?*\x00-\x1f]', "", (text or "").strip()).rstrip(".")
    return text or fallback


def target_for(path, root):
    try:
        audio = File(path, easy=True)
    except MutagenError:
        return None
    if audio is None or not audio.tags:
        return None
    get = lambda key: (audio.tags.get(key) or [""])[0]
    artist = clean(get("albumartist") or get("artist"), "Unknown Artist")
    album = clean(get("album"), "Unknown Album")
    title = clean(get("title"), path.stem)
    track = get("tracknumber").split("/")[0]
    prefix = f"{int(track):02d} - " if track.isdigit() else ""
    return root / artist / album / f"{prefix}{title}{path.suffix.lower()}"


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("source", type=Path)
    ap.add_argument("library", type=Path)
    ap.add_argument("--copy", action="store_true")
    args = ap.parse_args()
    for path in sorted(args.source.rglob("*")):
        if path.suffix.lower() not in (".mp3", ".flac", ".m4a", ".ogg"):
            continue
        target = target_for(path, args.library)
        if target is None:
            print("no tags:", path)
            continue
        if target.exists():
            print("exists:", target)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copy2 if args.copy else shutil.move)(str(path), str(target))
        print(f"{path.name} -> {target.relative_to(args.library)}")


if __name__ == "__main__":
    main()
