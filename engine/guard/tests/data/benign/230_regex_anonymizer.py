"""Pseudonymise personal data in log files with stable replacements."""
import argparse
import hashlib
import hmac
import os
import re
import sys

KEY = os.environ.get("ANON_KEY", "").encode() or os.urandom(16)

EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
IPV4 = re.compile(r"\b(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)\b")
CARD = re.compile(r"\b(?:\d[ -]?){13,16}\b")


def token(value, n=8):
    return hmac.new(KEY, value.lower().encode(), hashlib.sha256).hexdigest()[:n]


def luhn(digits):
    total = 0
    for i, ch in enumerate(reversed(digits)):
        d = int(ch)
        if i % 2:
            d = d * 2 - 9 if d > 4 else d * 2
        total += d
    return total % 10 == 0


def fake_ip(match):
    h = hmac.new(KEY, match[0].encode(), hashlib.sha256).digest()
    return f"10.{h[0]}.{h[1]}.{h[2]}"


def card(match):
    digits = re.sub(r"\D", "", match[0])
    return f"****{digits[-4:]}" if luhn(digits) else match[0]


def clean(line):
    line = EMAIL.sub(lambda m: f"user-{token(m[0])}@anon.invalid", line)
    line = IPV4.sub(fake_ip, line)
    return CARD.sub(card, line)


if __name__ == "__main__":
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("file", nargs="?", type=argparse.FileType("r", errors="replace"), default=sys.stdin)
    ap.add_argument("-o", "--output", type=argparse.FileType("w"), default=sys.stdout)
    a = ap.parse_args()
    for line in a.file:
        a.output.write(clean(line))
