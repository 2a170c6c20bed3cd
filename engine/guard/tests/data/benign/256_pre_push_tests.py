#!/usr/bin/env python3
import subprocess
import sys
from pathlib import Path

PROTECTED = {"refs/heads/main", "refs/heads/production"}
ZERO = "0" * 40


def changed(local, remote):
    base = remote
    if remote == ZERO:
        base = subprocess.check_output(["git", "merge-base", local, "origin/main"], text=True).strip()
    out = subprocess.check_output(["git", "diff", "--name-only", base, local], text=True)
    return out.splitlines()


def packages(files):
    found = set()
    for f in files:
        parts = Path(f).parts
        if len(parts) > 2 and parts[0] == "packages":
            found.add(Path(*parts[:2]))
    return sorted(found)


def main():
    files = []
    for line in sys.stdin:
        _, local_sha, remote_ref, remote_sha = line.split()
        if remote_ref in PROTECTED:
            print(f"direct pushes to {remote_ref} are not allowed, open a pull request")
            return 1
        if local_sha == ZERO:  # branch deletion
            continue
        files += changed(local_sha, remote_sha)
    for package in packages(files):
        print(f"running tests in {package}")
        if subprocess.call([sys.executable, "-m", "pytest", "-q", str(package)]) not in (0, 5):
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
