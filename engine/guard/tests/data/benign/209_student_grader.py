#!/usr/bin/env python3
"""Grade programming exercises: run every submission against the test cases."""
import argparse
import csv
import resource
import subprocess
import sys
import tempfile
from pathlib import Path


def limits():
    resource.setrlimit(resource.RLIMIT_CPU, (5, 5))
    resource.setrlimit(resource.RLIMIT_AS, (512 * 2**20,) * 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10 * 2**20,) * 2)


def run(script, stdin, timeout):
    with tempfile.TemporaryDirectory() as cwd:
        try:
            p = subprocess.run(
                [sys.executable, "-I", str(script.resolve())],
                input=stdin, text=True, capture_output=True, timeout=timeout, cwd=cwd,
                preexec_fn=limits, env={"PATH": "/usr/bin:/bin"},
            )
        except subprocess.TimeoutExpired:
            return None, "timeout"
    if p.returncode != 0:
        lines = p.stderr.strip().splitlines()
        return p.stdout, lines[-1] if lines else f"exit code {p.returncode}"
    return p.stdout, None


def normalize(text):
    return [line.rstrip() for line in (text or "").strip().splitlines()]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("submissions", type=Path)
    ap.add_argument("tests", type=Path, help="folder with N.in and N.out files")
    ap.add_argument("--timeout", type=float, default=5)
    ap.add_argument("--out", default="grades.csv")
    args = ap.parse_args()

    cases = [(i, i.with_suffix(".out")) for i in sorted(args.tests.glob("*.in"))]
    with open(args.out, "w", newline="") as fh:
        w = csv.writer(fh)
        w.writerow(["student", "passed", "total", "remarks"])
        for script in sorted(args.submissions.glob("*.py")):
            passed, remarks = 0, []
            for inp, exp in cases:
                out, error = run(script, inp.read_text(), args.timeout)
                if error:
                    remarks.append(f"{inp.stem}: {error}")
                elif normalize(out) == normalize(exp.read_text()):
                    passed += 1
                else:
                    remarks.append(f"{inp.stem}: wrong output")
            w.writerow([script.stem, passed, len(cases), "; ".join(remarks)])
            print(f"{script.stem:<25} {passed}/{len(cases)}")


if __name__ == "__main__":
    main()
