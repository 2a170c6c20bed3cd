#!/usr/bin/env python3
"""Manage our own entries in the user's crontab. Entries are tagged with '# managed:NAME'."""
import argparse
import subprocess

TAG = "# managed:"


def read():
    proc = subprocess.run(["crontab", "-l"], capture_output=True, text=True)
    return proc.stdout.splitlines() if proc.returncode == 0 else []


def write(lines):
    text = "\n".join(lines) + "\n"
    subprocess.run(["crontab", "-"], input=text, text=True, check=True)


def add(name, schedule, command):
    if len(schedule.split()) != 5 and not schedule.startswith("@"):
        raise SystemExit("schedule needs five fields, e.g. '0 3 * * *'")
    lines = [l for l in read() if not l.endswith(TAG + name)]
    lines.append(f"{schedule} {command} {TAG}{name}")
    write(lines)


def remove(name):
    lines = read()
    kept = [l for l in lines if not l.endswith(TAG + name)]
    if len(kept) == len(lines):
        raise SystemExit(f"no entry named {name}")
    write(kept)


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    sub = ap.add_subparsers(dest="cmd", required=True)
    p = sub.add_parser("add")
    p.add_argument("name")
    p.add_argument("schedule")
    p.add_argument("command")
    p = sub.add_parser("remove")
    p.add_argument("name")
    sub.add_parser("list")
    args = ap.parse_args()
    if args.cmd == "add":
        add(args.name, args.schedule, args.command)
    elif args.cmd == "remove":
        remove(args.name)
    else:
        for line in read():
            if TAG in line:
                print(line)


if __name__ == "__main__":
    main()
