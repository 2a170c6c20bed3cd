import argparse
import math
import secrets
import string

WORDS = """apple river candle mountain piano tiger window garden rocket button
silver forest anchor bridge cactus dolphin ember falcon glacier harbor island
jacket kettle lantern meadow needle orchard pepper quartz ribbon saddle timber""".split()


def random_password(length, symbols):
    alphabet = string.ascii_letters + string.digits + (symbols or "")
    while True:
        pw = "".join(secrets.choice(alphabet) for _ in range(length))
        checks = [any(c.islower() for c in pw), any(c.isupper() for c in pw), any(c.isdigit() for c in pw)]
        if symbols:
            checks.append(any(c in symbols for c in pw))
        if all(checks):
            return pw, length * math.log2(len(alphabet))


def passphrase(count, sep):
    chosen = [secrets.choice(WORDS) for _ in range(count)]
    return sep.join(chosen), count * math.log2(len(WORDS))


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("-l", "--length", type=int, default=20)
    ap.add_argument("-n", "--count", type=int, default=1)
    ap.add_argument("--symbols", default="!@#$%&*-_=+")
    ap.add_argument("--words", type=int, help="create a passphrase with this many words")
    a = ap.parse_args()
    for _ in range(a.count):
        value, bits = passphrase(a.words, "-") if a.words else random_password(max(4, a.length), a.symbols)
        print(f"{value}   ({bits:.0f} bits)")
