import argparse
import os

import psycopg
from psycopg import sql


def load(conn, table, path, key):
    with open(path, newline="") as f:
        header = f.readline().strip().split(",")
    cols = sql.SQL(", ").join(map(sql.Identifier, header))
    tmp = sql.Identifier(f"tmp_{table}")
    target = sql.Identifier(table)

    with conn.cursor() as cur:
        cur.execute(sql.SQL("CREATE TEMP TABLE {} (LIKE {} INCLUDING DEFAULTS) ON COMMIT DROP").format(tmp, target))
        copy_sql = sql.SQL("COPY {} ({}) FROM STDIN WITH (FORMAT csv, HEADER true)").format(tmp, cols)
        with open(path, "rb") as f, cur.copy(copy_sql) as copy:
            while data := f.read(1 << 16):
                copy.write(data)
        updates = sql.SQL(", ").join(
            sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(c)) for c in header if c != key
        )
        cur.execute(
            sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} ON CONFLICT ({}) DO UPDATE SET {}").format(
                target, cols, cols, tmp, sql.Identifier(key), updates
            )
        )
        return cur.rowcount


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("table")
    ap.add_argument("csv")
    ap.add_argument("--key", default="id")
    args = ap.parse_args()
    with psycopg.connect(os.environ["DATABASE_URL"]) as conn:
        print(load(conn, args.table, args.csv, args.key), "rows upserted")
