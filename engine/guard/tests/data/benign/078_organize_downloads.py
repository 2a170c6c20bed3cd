import os
import shutil
from pathlib import Path

DOWNLOADS = Path.home() / "Downloads"

CATEGORIES = {
    "Images": [".jpg", ".jpeg", ".png", ".gif", ".svg", ".webp", ".heic"],
    "Documents": [".pdf", ".docx", ".doc", ".odt", ".txt", ".md", ".xlsx", ".pptx"],
    "Archives": [".zip", ".tar", ".gz", ".7z", ".rar", ".xz"],
    "Video": [".mp4", ".mkv", ".mov", ".avi"],
    "Audio": [".mp3", ".flac", ".wav", ".ogg", ".m4a"],
    "Installers": [".exe", ".msi", ".dmg", ".deb", ".rpm", ".AppImage"],
}


def category(path):
    for name, exts in CATEGORIES.items():
        if path.suffix.lower() in [e.lower() for e in exts]:
            return name
    return "Other"


def unique(path):
    n = 1
    candidate = path
    while candidate.exists():
        candidate = path.with_name(f"{path.stem} ({n}){path.suffix}")
        n += 1
    return candidate


def main():
    for item in DOWNLOADS.iterdir():
        if item.is_dir() or item.name.startswith("."):
            continue
        if item.suffix in (".part", ".crdownload"):
            continue
        folder = DOWNLOADS / category(item)
        folder.mkdir(exist_ok=True)
        target = unique(folder / item.name)
        shutil.move(os.fspath(item), os.fspath(target))
        print(f"{item.name} -> {target.relative_to(DOWNLOADS)}")


if __name__ == "__main__":
    main()
