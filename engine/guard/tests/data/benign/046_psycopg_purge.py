import logging
import os
import time

import psycopg

logging.basicConfig(level=logging.INFO)
log = logging.getLogger("purge")

SQL = """
DELETE FROM sessions
WHERE id IN (
    SELECT id FROM sessions
    WHERE expires_at < now() - interval '7 days'
    ORDER BY id
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
"""


def purge(dsn, batch=1000, pause=0.5):
    total = 0
    with psycopg.connect(dsn, autocommit=True) as conn:
        while True:
            with conn.cursor() as cur:
                cur.execute(SQL, {"limit": batch})
                n = cur.rowcount
            total += n
            log.info("deleted %d (total %d)", n, total)
            if n < batch:
                break
            time.sleep(pause)
        conn.execute("ANALYZE sessions")
    return total


if __name__ == "__main__":
    purge(os.environ["DATABASE_URL"])
