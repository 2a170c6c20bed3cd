"""Look for secrets which were committed by accident."""
import argparse
import math
import re
import subprocess
import sys

RULES = {
    "AWS access key": re.compile(r"\bAKIA[0-9A-Z]{16}\b"),
    "private key": re.compile(r"-----BEGIN (?:RSA |EC |OPENSSH |DSA )?PRIVATE KEY-----"),
    "GitHub token": re.compile(r"\bgh[pousr]_[A-Za-z0-9]{36,}\b"),
    "Slack token": re.compile(r"\bxox[abpr]-[A-Za-z0-9-]{10,}"),
    "password assignment": re.compile(r"(?i)\b(?:password|passwd|secret|api_key|token)\b\s*[:=]\s*['\"]([^'\"]{8,})['\"]"),
}
LONG = re.compile(r"['\"]([A-Za-z0-9+/=_-]{32,})['\"]")
IGNORE = re.compile(r"(?i)example|changeme|your[_-]|xxxx|placeholder|\$\{|os\.environ")


def entropy(s):
    return -sum(p * math.log2(p) for p in (s.count(c) / len(s) for c in set(s)))


def tracked_files():
    out = subprocess.check_output(["git", "ls-files", "-z"], text=True)
    return [f for f in out.split("\0") if f]


def scan(path):
    try:
        text = open(path, encoding="utf-8").read()
    except (UnicodeDecodeError, OSError):
        return
    for no, line in enumerate(text.splitlines(), 1):
        if IGNORE.search(line) or "nosecret" in line:
            continue
        for name, rx in RULES.items():
            if rx.search(line):
                yield no, name, line
        m = LONG.search(line)
        if m and entropy(m.group(1)) > 4.5:
            yield no, "high entropy string", line


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("files", nargs="*")
    args = ap.parse_args()
    hits = 0
    for path in args.files or tracked_files():
        if path.endswith((".lock", ".svg", ".min.js", "package-lock.json")):
            continue
        for no, name, line in scan(path):
            hits += 1
            print(f"{path}:{no}: {name}: {line.strip()[:60]}...")
    sys.exit(1 if hits else 0)


if __name__ == "__main__":
    main()
