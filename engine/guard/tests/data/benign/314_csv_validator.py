import argparse
import csv
import re
import sys
from datetime import datetime

import yaml


def check_int(v, rule):
    n = int(v)
    check_range(n, rule)


def check_float(v, rule):
    check_range(float(v), rule)


def check_range(n, rule):
    if "min" in rule and n < rule["min"]:
        raise ValueError(f"{n} is less than {rule['min']}")
    if "max" in rule and n > rule["max"]:
        raise ValueError(f"{n} is greater than {rule['max']}")


def check_date(v, rule):
    datetime.strptime(v, rule.get("format", "%Y-%m-%d"))


def check_str(v, rule):
    if "regex" in rule and not re.fullmatch(rule["regex"], v):
        raise ValueError(f"{v!r} does not match {rule['regex']}")
    if "choices" in rule and v not in rule["choices"]:
        raise ValueError(f"{v!r} is not one of {rule['choices']}")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("csv")
    ap.add_argument("schema")
    ap.add_argument("--max-errors", type=int, default=50)
    args = ap.parse_args()
    with open(args.schema) as f:
        schema = yaml.safe_load(f)["columns"]
    errors = 0
    seen = {name: set() for name, rule in schema.items() if rule.get("unique")}
    with open(args.csv, newline="", encoding="utf-8-sig") as f:
        reader = csv.DictReader(f)
        missing = set(schema) - set(reader.fieldnames or [])
        if missing:
            sys.exit(f"missing columns: {sorted(missing)}")
        for line, row in enumerate(reader, 2):
            for name, rule in schema.items():
                value = (row[name] or "").strip()
                try:
                    if not value:
                        if rule.get("required"):
                            raise ValueError("is required")
                        continue
                    globals()["check_" + rule.get("type", "str")](value, rule)
                    if name in seen:
                        if value in seen[name]:
                            raise ValueError(f"duplicate value {value!r}")
                        seen[name].add(value)
                except ValueError as e:
                    errors += 1
                    print(f"line {line}, {name}: {e}")
            if errors >= args.max_errors:
                print("too many errors, stopping")
                break
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
