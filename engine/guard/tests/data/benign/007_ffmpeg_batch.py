import concurrent.futures
import shlex
import subprocess
import sys
from pathlib import Path


def convert(src: Path, out_dir: Path) -> tuple[Path, bool]:
    dst = out_dir / (src.stem + ".mp4")
    if dst.exists():
        return src, True
    cmd = f"ffmpeg -y -loglevel error -i {shlex.quote(str(src))} -c:v libx264 -crf 23 -preset medium -c:a aac -b:a 128k {shlex.quote(str(dst))}"
    proc = subprocess.run(cmd, shell=True)
    return src, proc.returncode == 0


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    out_dir = folder / "converted"
    out_dir.mkdir(exist_ok=True)
    files = sorted(p for p in folder.iterdir() if p.suffix.lower() == ".mov")
    print(f"{len(files)} files to convert")
    failed = []
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        for src, ok in pool.map(lambda p: convert(p, out_dir), files):
            print(("OK   " if ok else "FAIL ") + src.name)
            if not ok:
                failed.append(src)
    if failed:
        sys.exit(f"{len(failed)} file(s) failed")


if __name__ == "__main__":
    main()
