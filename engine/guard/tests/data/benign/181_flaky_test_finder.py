"""Run the test suite several times and list the tests that do not always behave the same."""
import argparse
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import defaultdict
from pathlib import Path


def run_once(xml_path, extra):
    cmd = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={xml_path}", *extra]
    subprocess.run(cmd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def outcomes(xml_path):
    for case in ET.parse(xml_path).getroot().iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        if case.find("failure") is not None or case.find("error") is not None:
            yield name, "failed", float(case.get("time", 0))
        elif case.find("skipped") is not None:
            yield name, "skipped", 0.0
        else:
            yield name, "passed", float(case.get("time", 0))


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("-n", type=int, default=5)
    ap.add_argument("pytest_args", nargs="*")
    args = ap.parse_args()

    results = defaultdict(list)
    with tempfile.TemporaryDirectory() as tmp:
        for i in range(args.n):
            xml = Path(tmp) / f"run{i}.xml"
            run_once(xml, args.pytest_args)
            if not xml.exists():
                sys.exit("pytest did not write a report")
            for name, outcome, _ in outcomes(xml):
                results[name].append(outcome)
            print(f"run {i + 1}/{args.n} done")

    flaky = {n: o for n, o in results.items() if len(set(o)) > 1}
    for name, o in sorted(flaky.items()):
        print(f"FLAKY {name}: {o.count('failed')}/{len(o)} failures")
    print(f"{len(flaky)} flaky of {len(results)} tests")


if __name__ == "__main__":
    main()
