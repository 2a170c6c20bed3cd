import argparse
import multiprocessing as mp
import os
import traceback
from pathlib import Path

import pandas as pd


def process(path):
    try:
        df = pd.read_csv(path)
        df["timestamp"] = pd.to_datetime(df["timestamp"], errors="coerce")
        df = df.dropna(subset=["timestamp", "value"]).drop_duplicates()
        daily = df.resample("D", on="timestamp")["value"].agg(["mean", "min", "max", "count"])
        out = path.with_suffix(".daily.csv")
        daily.to_csv(out)
        return path.name, len(df), None
    except Exception:
        return path.name, 0, traceback.format_exc(limit=1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("folder", type=Path)
    ap.add_argument("-j", "--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    args = ap.parse_args()
    files = [p for p in args.folder.rglob("*.csv") if not p.name.endswith(".daily.csv")]
    errors = []
    with mp.Pool(args.jobs, maxtasksperchild=50) as pool:
        for i, (name, rows, error) in enumerate(pool.imap_unordered(process, files, chunksize=4), 1):
            print(f"\r{i}/{len(files)} {name[:40]:<40} {rows:>8} rows", end="", flush=True)
            if error:
                errors.append((name, error))
    print()
    for name, error in errors:
        print(f"{name}:\n{error}")


if __name__ == "__main__":
    main()
