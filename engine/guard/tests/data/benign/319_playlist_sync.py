import argparse
import shlex
import subprocess
from pathlib import Path

REMOTE = "/sdcard/Music/Sync"


def adb(*args, **kw):
    return subprocess.run(["adb", *args], check=True, text=True, **kw)


def remote_files():
    adb("shell", f"mkdir -p {REMOTE}")
    out = adb("shell", f"ls -1 {REMOTE}", stdout=subprocess.PIPE).stdout
    return set(filter(None, out.splitlines()))


def read_playlist(path):
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            p = Path(line)
            yield p if p.is_absolute() else path.parent / p


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("playlist", type=Path)
    ap.add_argument("--no-delete", action="store_true")
    args = ap.parse_args()
    devices = [l for l in adb("devices", stdout=subprocess.PIPE).stdout.splitlines()[1:] if l.endswith("\tdevice")]
    if len(devices) != 1:
        raise SystemExit(f"{len(devices)} devices connected, expected one")
    tracks = {p.name: p for p in read_playlist(args.playlist) if p.exists()}
    present = remote_files()
    for name in sorted(tracks.keys() - present):
        print("push", name)
        adb("push", str(tracks[name]), f"{REMOTE}/{name}", stdout=subprocess.DEVNULL)
    if not args.no_delete:
        for name in sorted(present - tracks.keys()):
            print("delete", name)
            adb("shell", f"rm {shlex.quote(f'{REMOTE}/{name}')}")


if __name__ == "__main__":
    main()
