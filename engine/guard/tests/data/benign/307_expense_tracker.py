import argparse
import json
from collections import defaultdict
from datetime import date
from pathlib import Path

FILE = Path.home() / "expenses.json"


def load():
    return json.loads(FILE.read_text()) if FILE.exists() else []


def store(items):
    tmp = FILE.with_suffix(".tmp")
    tmp.write_text(json.dumps(items, indent=2))
    tmp.replace(FILE)


def add(args):
    items = load()
    items.append({"date": args.date, "amount": round(args.amount, 2), "category": args.category, "note": args.note})
    store(items)
    print(f"recorded {args.amount:.2f} in {args.category}")


def summary(args):
    totals = defaultdict(float)
    for e in load():
        if e["date"].startswith(args.month):
            totals[e["category"]] += e["amount"]
    if not totals:
        print("no expenses in", args.month)
        return
    whole = sum(totals.values())
    for cat, total in sorted(totals.items(), key=lambda kv: -kv[1]):
        print(f"{cat:<15} {total:>10.2f} {total / whole:>6.1%} {'█' * int(30 * total / whole)}")
    print(f"{'total':<15} {whole:>10.2f}")


def delete(args):
    items = load()
    for i, e in enumerate(items):
        if i == args.index:
            print("deleted", items.pop(i))
            store(items)
            return
    print("no such entry")


def main():
    ap = argparse.ArgumentParser()
    sub = ap.add_subparsers(dest="cmd", required=True)
    p = sub.add_parser("add")
    p.add_argument("amount", type=float)
    p.add_argument("category")
    p.add_argument("--note", default="")
    p.add_argument("--date", default=date.today().isoformat())
    p.set_defaults(fn=add)
    p = sub.add_parser("summary")
    p.add_argument("--month", default=date.today().strftime("%Y-%m"))
    p.set_defaults(fn=summary)
    p = sub.add_parser("delete")
    p.add_argument("index", type=int)
    p.set_defaults(fn=delete)
    args = ap.parse_args()
    args.fn(args)


if __name__ == "__main__":
    main()
