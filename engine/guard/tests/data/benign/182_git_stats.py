import collections
import datetime
import subprocess
import sys


def log(repo, since):
    cmd = ["git", "-C", repo, "log", "--no-merges", "--numstat", "--pretty=format:@%an|%at"]
    if since:
        cmd.append(f"--since={since}")
    return subprocess.run(cmd, capture_output=True, text=True, check=True).stdout


def main():
    repo = sys.argv[1] if len(sys.argv) > 1 else "."
    since = sys.argv[2] if len(sys.argv) > 2 else None
    commits = collections.Counter()
    added = collections.Counter()
    removed = collections.Counter()
    weekdays = collections.Counter()
    hot = collections.Counter()
    author = None
    for line in log(repo, since).splitlines():
        if line.startswith("@"):
            author, ts = line[1:].rsplit("|", 1)
            commits[author] += 1
            weekdays[datetime.datetime.fromtimestamp(int(ts)).strftime("%A")] += 1
        elif line.strip():
            a, r, path = line.split("\t", 2)
            if a != "-":
                added[author] += int(a)
                removed[author] += int(r)
                hot[path] += 1

    print(f"{'author':<25}{'commits':>8}{'added':>10}{'removed':>10}")
    for name, n in commits.most_common():
        print(f"{name[:24]:<25}{n:>8}{added[name]:>10}{removed[name]:>10}")
    print("\nWeekdays:", ", ".join(f"{d} {n}" for d, n in weekdays.most_common()))
    print("\nMost changed files:")
    for path, n in hot.most_common(10):
        print(f"{n:>5}  {path}")


if __name__ == "__main__":
    main()
