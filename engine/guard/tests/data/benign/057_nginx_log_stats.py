import argparse
import gzip
import re
from collections import Counter, defaultdict

LINE = re.compile(
    r'(?P<ip>\S+) \S+ \S+ \[(?P<time>[^\]]+)\] "(?P<method>[A-Z]+) (?P<path>\S+) [^"]*" '
    r'(?P<status>\d{3}) (?P<size>\d+|-)(?: "[^"]*" "(?P<agent>[^"]*)")?(?: (?P<rt>[\d.]+))?'
)


def open_any(path):
    return gzip.open(path, "rt", errors="replace") if path.endswith(".gz") else open(path, errors="replace")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("logs", nargs="+")
    ap.add_argument("-n", type=int, default=10)
    args = ap.parse_args()

    ips, statuses, paths = Counter(), Counter(), Counter()
    times = defaultdict(list)
    bad = total = 0
    for log in args.logs:
        with open_any(log) as f:
            for line in f:
                m = LINE.match(line)
                if not m:
                    bad += 1
                    continue
                total += 1
                ips[m["ip"]] += 1
                statuses[m["status"]] += 1
                path = m["path"].split("?")[0]
                paths[path] += 1
                if m["rt"]:
                    times[path].append(float(m["rt"]))

    print(f"{total} requests, {bad} unparsable lines\n")
    for title, counter in (("Client IPs", ips), ("Status", statuses), ("Paths", paths)):
        print(title)
        for key, count in counter.most_common(args.n):
            print(f"  {count:>8}  {key}")
        print()
    if times:
        print("Slowest (mean seconds)")
        slow = sorted(times.items(), key=lambda kv: sum(kv[1]) / len(kv[1]), reverse=True)
        for path, values in slow[: args.n]:
            print(f"  {sum(values) / len(values):8.3f}  {path} ({len(values)}x)")


if __name__ == "__main__":
    main()
