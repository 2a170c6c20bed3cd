import os
import subprocess
import sys
import time


def snapshot(root):
    state = {}
    for dirpath, dirnames, filenames in os.walk(root):
        dirnames[:] = [d for d in dirnames if not d.startswith(".") and d != "__pycache__"]
        for f in filenames:
            if f.endswith(".py"):
                path = os.path.join(dirpath, f)
                try:
                    state[path] = os.stat(path).st_mtime_ns
                except FileNotFoundError:
                    pass
    return state


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    cmd = sys.argv[2:] or [sys.executable, "-m", "pytest", "-q"]
    before = {}
    while True:
        now = snapshot(root)
        changed = {p for p in now if before.get(p) != now[p]} | (before.keys() - now.keys())
        if changed:
            os.system("clear")
            for p in list(changed)[:5]:
                print("changed:", p)
            subprocess.call(cmd)
            before = snapshot(root)
        time.sleep(1)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("bye")
