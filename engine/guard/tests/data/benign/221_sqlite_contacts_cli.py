#!/usr/bin/env python3
import argparse
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

DB = Path.home() / ".contacts.db"


def connect():
    conn = sqlite3.connect(DB)
    conn.row_factory = sqlite3.Row
    conn.execute(
        "CREATE TABLE IF NOT EXISTS contacts (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT, phone TEXT, UNIQUE(name, email))"
    )
    return conn


def add(conn, a):
    with conn:
        cur = conn.execute("INSERT INTO contacts (name, email, phone) VALUES (?, ?, ?)", (a.name, a.email, a.phone))
    print(f"added #{cur.lastrowid}")


def search(conn, a):
    like = f"%{a.term}%"
    for r in conn.execute("SELECT * FROM contacts WHERE name LIKE ? OR email LIKE ? ORDER BY name", (like, like)):
        print(f"{r['id']:>4}  {r['name']:<25} {r['email'] or '':<30} {r['phone'] or ''}")


def update(conn, a):
    changes = {k: getattr(a, k) for k in ("name", "email", "phone") if getattr(a, k)}
    if not changes:
        sys.exit("nothing to change")
    assignments = ", ".join(f"{k} = :{k}" for k in changes)
    with conn:
        cur = conn.execute(f"UPDATE contacts SET {assignments} WHERE id = :id", {**changes, "id": a.id})
    print("updated" if cur.rowcount else "not found")


def delete(conn, a):
    with conn:
        cur = conn.execute("DELETE FROM contacts WHERE id = ?", (a.id,))
    print("deleted" if cur.rowcount else "not found")


def export(conn, a):
    for r in conn.execute("SELECT * FROM contacts ORDER BY name"):
        print("BEGIN:VCARD\nVERSION:3.0")
        print(f"FN:{r['name']}")
        if r["email"]:
            print(f"EMAIL:{r['email']}")
        if r["phone"]:
            print(f"TEL:{r['phone']}")
        print("END:VCARD")


def main():
    ap = argparse.ArgumentParser()
    sub = ap.add_subparsers(required=True)
    for fn in (add, search, update, delete, export):
        p = sub.add_parser(fn.__name__)
        p.set_defaults(fn=fn)
        if fn is search:
            p.add_argument("term", nargs="?", default="")
        if fn in (update, delete):
            p.add_argument("id", type=int)
        if fn in (add, update):
            p.add_argument("name" if fn is add else "--name")
            p.add_argument("--email")
            p.add_argument("--phone")
    args = ap.parse_args()
    with closing(connect()) as conn:
        args.fn(conn, args)


if __name__ == "__main__":
    main()
