import argparse
import os
import re
import sys
import time


def follow(path, lines):
    f = open(path, errors="replace")
    inode = os.fstat(f.fileno()).st_ino
    f.seek(0, os.SEEK_END)
    size = f.tell()
    f.seek(max(0, size - 64 * 1024))
    for line in f.read().splitlines()[-lines:]:
        yield line
    buffer = ""
    while True:
        chunk = f.readline()
        if chunk:
            buffer += chunk
            if buffer.endswith("\n"):
                yield buffer.rstrip("\n")
                buffer = ""
            continue
        time.sleep(0.3)
        try:
            st = os.stat(path)
        except FileNotFoundError:
            continue
        if st.st_ino != inode or st.st_size < f.tell():
            f.close()
            f = open(path, errors="replace")
            inode = os.fstat(f.fileno()).st_ino


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("file")
    ap.add_argument("-n", "--lines", type=int, default=10)
    ap.add_argument("-g", "--grep", type=re.compile)
    ap.add_argument("-c", "--color", type=re.compile, default=re.compile(r"ERROR|FATAL|Traceback|WARN(?:ING)?"))
    args = ap.parse_args()
    for line in follow(args.file, args.lines):
        if args.grep and not args.grep.search(line):
            continue
        if sys.stdout.isatty():
            line = args.color.sub(lambda m: f"\033[1;31m{m[0]}\033[0m", line)
        print(line, flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
