import argparse
import os


def human(n):
    for unit in "BKMGT":
        if n < 1024:
            return f"{n:.1f}{unit}"
        n /= 1024
    return f"{n:.1f}P"


def size_of(path):
    total = 0
    children = []
    try:
        for entry in os.scandir(path):
            if entry.is_symlink():
                continue
            if entry.is_dir():
                node = size_of(entry.path)
                children.append(node)
                total += node[1]
            else:
                total += entry.stat().st_size
    except PermissionError:
        pass
    return os.path.basename(path) or path, total, children


def show(node, depth, limit, minimum, prefix=""):
    name, total, children = node
    print(f"{prefix}{human(total):>8}  {name}")
    if depth == 0:
        return
    for child in sorted(children, key=lambda c: -c[1])[:limit]:
        if child[1] >= minimum:
            show(child, depth - 1, limit, minimum, prefix + "    ")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("path", nargs="?", default=".")
    ap.add_argument("-d", "--depth", type=int, default=2)
    ap.add_argument("-l", "--limit", type=int, default=8)
    ap.add_argument("-m", "--min-mb", type=float, default=1)
    a = ap.parse_args()
    show(size_of(os.path.abspath(a.path)), a.depth, a.limit, a.min_mb * 1024 * 1024)
