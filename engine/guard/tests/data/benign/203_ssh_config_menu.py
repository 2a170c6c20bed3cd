#!/usr/bin/env python3
import os
import sys
from pathlib import Path

CONFIG = Path.home() / ".ssh" / "config"


def parse(path):
    hosts, current = [], None
    for raw in path.read_text().splitlines():
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        key, _, value = line.replace("=", " ", 1).partition(" ")
        key, value = key.lower(), value.strip()
        if key == "include":
            for extra in sorted(path.parent.glob(value)):
                hosts += parse(extra)
        elif key == "host":
            for alias in value.split():
                if "*" not in alias and "?" not in alias:
                    current = {"alias": alias}
                    hosts.append(current)
        elif current is not None:
            current[key] = value
    return hosts


def main():
    if not CONFIG.exists():
        sys.exit(f"{CONFIG} does not exist")
    hosts = parse(CONFIG)
    query = " ".join(sys.argv[1:]).lower()
    hosts = [h for h in hosts if query in h["alias"].lower() or query in h.get("hostname", "").lower()]
    if not hosts:
        sys.exit("no matching host")
    if len(hosts) > 1:
        for i, h in enumerate(hosts, 1):
            print(f"{i:>3}  {h['alias']:<20} {h.get('user', '')}@{h.get('hostname', h['alias'])}")
        try:
            host = hosts[int(input("> ")) - 1]
        except (ValueError, IndexError):
            sys.exit("invalid choice")
    else:
        host = hosts[0]
    os.execvp("ssh", ["ssh", host["alias"]])


if __name__ == "__main__":
    main()
