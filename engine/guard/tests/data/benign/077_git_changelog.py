import re
import subprocess
import sys
from collections import defaultdict
from datetime import date

TITLES = {"feat": "Features", "fix": "Bug fixes", "perf": "Performance", "docs": "Documentation", "refactor": "Refactoring"}
PATTERN = re.compile(r"^(?P<type>\w+)(?:\((?P<scope>[^)]+)\))?(?P<bang>!)?: (?P<desc>.+)$")


def git(*args):
    return subprocess.check_output(("git",) + args, text=True).strip()


def last_tag():
    try:
        return git("describe", "--tags", "--abbrev=0")
    except subprocess.CalledProcessError:
        return None


def main():
    start = sys.argv[1] if len(sys.argv) > 1 else last_tag()
    end = sys.argv[2] if len(sys.argv) > 2 else "HEAD"
    rng = f"{start}..{end}" if start else end
    groups, breaking = defaultdict(list), []
    for line in git("log", "--no-merges", "--pretty=%h%x09%s", rng).splitlines():
        sha, subject = line.split("\t", 1)
        m = PATTERN.match(subject)
        if not m or m["type"] not in TITLES:
            continue
        scope = f"**{m['scope']}**: " if m["scope"] else ""
        entry = f"- {scope}{m['desc']} ({sha})"
        groups[m["type"]].append(entry)
        if m["bang"]:
            breaking.append(entry)

    print(f"## {end} ({date.today()})\n")
    if breaking:
        print("### BREAKING CHANGES\n", *breaking, sep="\n", end="\n\n")
    for kind, title in TITLES.items():
        if groups[kind]:
            print(f"### {title}\n", *groups[kind], sep="\n", end="\n\n")


if __name__ == "__main__":
    main()
