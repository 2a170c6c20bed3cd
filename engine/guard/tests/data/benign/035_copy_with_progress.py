import os
import sys
import time


def copy(src, dst, buffer_size=4 * 1024 * 1024):
    total = os.path.getsize(src)
    copied = 0
    start = time.time()
    with open(src, "rb") as fin, open(dst, "wb") as fout:
        while True:
            buf = fin.read(buffer_size)
            if not buf:
                break
            fout.write(buf)
            copied += len(buf)
            show(copied, total, time.time() - start)
    print()


def show(done, total, elapsed, width=40):
    frac = done / total if total else 1
    filled = int(frac * width)
    speed = done / elapsed / 1e6 if elapsed else 0
    sys.stdout.write(f"\r[{'=' * filled}{' ' * (width - filled)}] {frac:6.1%} {speed:7.1f} MB/s")
    sys.stdout.flush()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        print("usage: copy_with_progress.py SRC DST")
        sys.exit(1)
    src, dst = sys.argv[1:]
    if os.path.isdir(dst):
        dst = os.path.join(dst, os.path.basename(src))
    if os.path.exists(dst):
        answer = input(f"{dst} exists, overwrite? [y/N] ")
        if answer.lower() != "y":
            sys.exit(0)
    copy(src, dst)
