"""Remove stale temporary directories left behind by the test suite."""
import os
import shutil
import tempfile
import time

PREFIX = "pytest-run-"
MAX_AGE_DAYS = 3


def main():
    base = tempfile.gettempdir()
    cutoff = time.time() - MAX_AGE_DAYS * 86400
    removed = 0
    for entry in os.scandir(base):
        if not entry.is_dir(follow_symlinks=False):
            continue
        if not entry.name.startswith(PREFIX):
            continue
        if entry.stat().st_uid != os.getuid():
            continue
        if entry.stat().st_mtime > cutoff:
            continue
        try:
            shutil.rmtree(entry.path)
            removed += 1
        except OSError as err:
            print(f"could not remove {entry.path}: {err}")
    print(f"removed {removed} directories from {base}")


if __name__ == "__main__":
    main()
