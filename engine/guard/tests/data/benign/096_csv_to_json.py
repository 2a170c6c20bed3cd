import argparse
import csv
import json
import sys


def convert_value(v):
    if v == "":
        return None
    for cast in (int, float):
        try:
            return cast(v)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(v.lower(), v)


def csv_to_jsonl(src, dst, delimiter):
    for row in csv.DictReader(src, delimiter=delimiter):
        dst.write(json.dumps({k: convert_value(v) for k, v in row.items()}, ensure_ascii=False) + "\n")


def jsonl_to_csv(src, dst, delimiter):
    rows = [json.loads(line) for line in src if line.strip()]
    fields = []
    for row in rows:
        fields += [k for k in row if k not in fields]
    writer = csv.DictWriter(dst, fieldnames=fields, delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("input", nargs="?", type=argparse.FileType("r"), default=sys.stdin)
    p.add_argument("-o", "--output", type=argparse.FileType("w"), default=sys.stdout)
    p.add_argument("-d", "--delimiter", default=",")
    p.add_argument("-r", "--reverse", action="store_true", help="JSON lines to CSV")
    a = p.parse_args()
    (jsonl_to_csv if a.reverse else csv_to_jsonl)(a.input, a.output, a.delimiter)
