"""Clipboard history. Run `clip.py watch` in the background, then `clip.py list` / `clip.py get ID`."""
import argparse
import sqlite3
import time
from pathlib import Path

import pyperclip

DB = Path.home() / ".local" / "share" / "cliphist.db"
LIMIT = 100


def connect():
    DB.parent.mkdir(parents=True, exist_ok=True)
    db = sqlite3.connect(DB)
    db.execute("CREATE TABLE IF NOT EXISTS clips (id INTEGER PRIMARY KEY, at REAL, text TEXT UNIQUE)")
    return db


def watch(interval):
    db = connect()
    last = pyperclip.paste()
    print("watching the clipboard, Ctrl-C to stop")
    while True:
        time.sleep(interval)
        text = pyperclip.paste()
        if not text or text == last:
            continue
        last = text
        with db:
            db.execute("INSERT INTO clips (at, text) VALUES (?, ?) ON CONFLICT (text) DO UPDATE SET at = excluded.at", (time.time(), text))
            db.execute("DELETE FROM clips WHERE id NOT IN (SELECT id FROM clips ORDER BY at DESC LIMIT ?)", (LIMIT,))


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    sub = ap.add_subparsers(dest="cmd", required=True)
    sub.add_parser("watch").add_argument("--interval", type=float, default=0.7)
    sub.add_parser("list").add_argument("search", nargs="?", default="")
    sub.add_parser("get").add_argument("id", type=int)
    sub.add_parser("clear")
    a = ap.parse_args()
    db = connect()
    if a.cmd == "watch":
        try:
            watch(a.interval)
        except KeyboardInterrupt:
            pass
    elif a.cmd == "list":
        for cid, at, text in db.execute("SELECT * FROM clips WHERE text LIKE ? ORDER BY at DESC", (f"%{a.search}%",)):
            print(f"{cid:>5} {time.strftime('%d.%m. %H:%M', time.localtime(at))}  {text[:70]!r}")
    elif a.cmd == "get":
        row = db.execute("SELECT text FROM clips WHERE id = ?", (a.id,)).fetchone()
        if row:
            pyperclip.copy(row[0])
    else:
        with db:
            db.execute("DELETE FROM clips")


if __name__ == "__main__":
    main()
