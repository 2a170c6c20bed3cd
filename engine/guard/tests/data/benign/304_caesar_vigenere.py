import argparse
import string

FREQ = dict(zip("etaoinshrdlcumwfgypbvkjxqz", [12.7, 9.1, 8.2, 7.5, 7.0, 6.7, 6.3, 6.1, 6.0, 4.3, 4.0, 2.8, 2.8, 2.4, 2.4, 2.2, 2.0, 2.0, 1.9, 1.5, 1.0, 0.8, 0.15, 0.15, 0.1, 0.07]))


def shift_char(ch, k):
    if ch in string.ascii_lowercase:
        return chr((ord(ch) - 97 + k) % 26 + 97)
    if ch in string.ascii_uppercase:
        return chr((ord(ch) - 65 + k) % 26 + 65)
    return ch


def caesar(text, k):
    return "".join(shift_char(c, k) for c in text)


def vigenere(text, key, decode=False):
    shifts = [ord(c) - 97 for c in key.lower() if c.isalpha()]
    out, i = [], 0
    for ch in text:
        if ch.isascii() and ch.isalpha():
            k = shifts[i % len(shifts)]
            out.append(shift_char(ch, -k if decode else k))
            i += 1
        else:
            out.append(ch)
    return "".join(out)


def crack(text):
    def score(candidate):
        return sum(FREQ.get(c, 0) for c in candidate.lower())
    return max(((k, caesar(text, -k)) for k in range(26)), key=lambda kv: score(kv[1]))


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("mode", choices=["encode", "decode", "crack"])
    ap.add_argument("text")
    ap.add_argument("-k", "--key", default="3")
    a = ap.parse_args()
    if a.mode == "crack":
        print("shift %d: %s" % crack(a.text))
    elif a.key.lstrip("-").isdigit():
        k = int(a.key)
        print(caesar(a.text, k if a.mode == "encode" else -k))
    else:
        print(vigenere(a.text, a.key, a.mode == "decode"))
