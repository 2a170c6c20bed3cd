import os
import shutil
import sys


def flatten(root):
    moved = 0
    for dirpath, _, files in os.walk(root, topdown=False):
        if os.path.samefile(dirpath, root):
            continue
        for name in files:
            src = os.path.join(dirpath, name)
            rel = os.path.relpath(dirpath, root).replace(os.sep, "_")
            dst = os.path.join(root, name)
            if os.path.exists(dst):
                dst = os.path.join(root, f"{rel}_{name}")
            shutil.move(src, dst)
            moved += 1
        try:
            os.rmdir(dirpath)
        except OSError as e:
            print(f"{dirpath} not removed: {e}")
    return moved


if __name__ == "__main__":
    if len(sys.argv) != 2 or not os.path.isdir(sys.argv[1]):
        sys.exit("usage: flatten_dir.py FOLDER")
    print(flatten(sys.argv[1]), "files moved")
