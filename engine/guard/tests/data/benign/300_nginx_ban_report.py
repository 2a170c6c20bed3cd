#!/usr/bin/env python3
import argparse
import collections
import ipaddress
import re
import subprocess
import sys
from pathlib import Path

RX = re.compile(r'^(\S+) .*?"(?:GET|POST|HEAD) (\S+)[^"]*" (\d{3})')
SUSPICIOUS = re.compile(r"/(?:wp-login|xmlrpc|\.env|\.git/|phpmyadmin|cgi-bin|vendor/phpunit)", re.I)


def offenders(log, threshold, allow):
    score = collections.Counter()
    with open(log, errors="replace") as f:
        for line in f:
            m = RX.match(line)
            if not m:
                continue
            ip, path, status = m.groups()
            if SUSPICIOUS.search(path):
                score[ip] += 5
            elif status == "404":
                score[ip] += 1
    for ip, points in score.most_common():
        if points < threshold:
            break
        addr = ipaddress.ip_address(ip)
        if addr.is_private or any(addr in net for net in allow):
            continue
        yield ip, points


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--log", default="/var/log/nginx/access.log")
    ap.add_argument("--out", type=Path, default=Path("/etc/nginx/conf.d/denylist.conf"))
    ap.add_argument("--threshold", type=int, default=40)
    ap.add_argument("--allow", nargs="*", type=ipaddress.ip_network, default=[])
    ap.add_argument("--apply", action="store_true")
    args = ap.parse_args()
    lines = []
    for ip, points in offenders(args.log, args.threshold, args.allow):
        print(f"{ip:<40} {points}")
        lines.append(f"deny {ip};  # score {points}")
    if not args.apply:
        return
    old = args.out.read_text() if args.out.exists() else ""
    args.out.write_text("\n".join(lines) + "\n")
    if subprocess.run(["nginx", "-t"]).returncode != 0:
        args.out.write_text(old)
        sys.exit("configuration test failed, restored the old list")
    subprocess.run(["systemctl", "reload", "nginx"], check=True)


if __name__ == "__main__":
    main()
