"""Self-update support for the ``mytool`` command line program."""
import json
import subprocess
import sys
import time
import urllib.request
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGE = "mytool"
CACHE = Path.home() / ".cache" / PACKAGE / "update_check.json"
CHECK_EVERY = 24 * 3600


def installed():
    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        return None


def latest(force=False):
    if not force and CACHE.exists():
        cached = json.loads(CACHE.read_text())
        if time.time() - cached["time"] < CHECK_EVERY:
            return cached["version"]
    with urllib.request.urlopen(f"https://pypi.org/pypi/{PACKAGE}/json", timeout=5) as resp:
        newest = json.load(resp)["info"]["version"]
    CACHE.parent.mkdir(parents=True, exist_ok=True)
    CACHE.write_text(json.dumps({"time": time.time(), "version": newest}))
    return newest


def as_tuple(v):
    return tuple(int(p) for p in v.split(".") if p.isdigit())


def notify():
    """Print a hint when a newer release exists; never raises."""
    try:
        cur, new = installed(), latest()
        if cur and as_tuple(new) > as_tuple(cur):
            print(f"A new version is available: {cur} -> {new}. Run '{PACKAGE} self-update'.", file=sys.stderr)
    except Exception:
        pass


def self_update():
    cur, new = installed(), latest(force=True)
    if cur and as_tuple(new) <= as_tuple(cur):
        print(f"{PACKAGE} {cur} is the newest version")
        return 0
    return subprocess.call([sys.executable, "-m", "pip", "install", "--upgrade", f"{PACKAGE}=={new}"])


if __name__ == "__main__":
    sys.exit(self_update())
