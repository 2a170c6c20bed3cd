"""Demo of gettext: run `gettext_app.py --build` once to compile the catalogs."""
import argparse
import gettext
import locale
import subprocess
from pathlib import Path

LOCALES = Path(__file__).parent / "locale"
DOMAIN = "demo"


def build():
    for po in LOCALES.glob("*/LC_MESSAGES/*.po"):
        subprocess.run(["msgfmt", "--check", "-o", str(po.with_suffix(".mo")), str(po)], check=True)
        print("compiled", po)


def translator(lang=None):
    if lang is None:
        lang = (locale.getlocale()[0] or "en").split("_")[0]
    return gettext.translation(DOMAIN, LOCALES, languages=[lang], fallback=True)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--lang")
    ap.add_argument("--build", action="store_true")
    ap.add_argument("count", type=int, nargs="?", default=1)
    args = ap.parse_args()
    if args.build:
        build()
        return
    t = translator(args.lang)
    _, ngettext = t.gettext, t.ngettext
    print(_("Welcome!"))
    print(ngettext("There is {n} new message.", "There are {n} new messages.", args.count).format(n=args.count))


if __name__ == "__main__":
    main()
