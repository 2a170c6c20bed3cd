import subprocess
import sys
import time
from pathlib import Path


def build(path, target):
    start = time.perf_counter()
    proc = subprocess.run(["make", "-C", str(path), target], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return proc.returncode, time.perf_counter() - start, proc.stdout


def main():
    target = sys.argv[1] if len(sys.argv) > 1 else "all"
    rows = []
    for makefile in sorted(Path(".").glob("*/Makefile")):
        code, seconds, output = build(makefile.parent, target)
        rows.append((makefile.parent.name, code, seconds))
        if code != 0:
            log = Path(f"{makefile.parent.name}.log")
            log.write_text(output)
            print(f"{makefile.parent.name} failed, see {log}")
    print()
    for name, code, seconds in rows:
        print(f"{name:<20} {'ok' if code == 0 else 'FAILED':<8} {seconds:7.1f}s")
    sys.exit(any(code for _, code, _ in rows))


if __name__ == "__main__":
    main()
