import argparse
import difflib
import unicodedata
from pathlib import Path

REPLACE = {
    "\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"',
    "\u2013": "-", "\u2014": "--", "\u2026": "...",
    "\u00a0": " ", "\u202f": " ", "\u200b": "", "\ufeff": "",
}
TABLE = str.maketrans(REPLACE)


def decode(data):
    for enc in ("utf-8-sig", "cp1252", "latin-1"):
        try:
            return data.decode(enc), enc
        except UnicodeDecodeError:
            continue


def clean(text, ascii_only=False):
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = unicodedata.normalize("NFC", text.translate(TABLE))
    text = "\n".join(line.rstrip() for line in text.split("\n")).rstrip("\n") + "\n"
    if ascii_only:
        text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return text


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("files", nargs="+", type=Path)
    ap.add_argument("-i", "--in-place", action="store_true")
    ap.add_argument("--ascii", action="store_true")
    args = ap.parse_args()
    for path in args.files:
        raw = path.read_bytes()
        text, enc = decode(raw)
        new = clean(text, args.ascii)
        if new.encode() == raw:
            continue
        if args.in_place:
            path.write_bytes(new.encode("utf-8"))
            print(f"{path}: cleaned (was {enc})")
        else:
            diff = difflib.unified_diff(text.splitlines(), new.splitlines(), str(path), "cleaned", lineterm="", n=0)
            print("\n".join(diff))


if __name__ == "__main__":
    main()
