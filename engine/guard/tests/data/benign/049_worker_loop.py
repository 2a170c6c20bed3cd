import json
import logging
import signal
import sqlite3
import threading
import time
import traceback

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
stop = threading.Event()
HANDLERS = {}


def job(name):
    def deco(fn):
        HANDLERS[name] = fn
        return fn
    return deco


@job("resize")
def resize(payload):
    time.sleep(0.5)
    return {"resized": payload["path"]}


@job("email")
def email(payload):
    logging.info("pretend to mail %s", payload["to"])


def claim(db):
    with db:
        row = db.execute("SELECT id, kind, payload FROM jobs WHERE status = 'queued' ORDER BY id LIMIT 1").fetchone()
        if row:
            db.execute("UPDATE jobs SET status = 'running', started_at = ? WHERE id = ?", (time.time(), row[0]))
        return row


def finish(db, job_id, status, result):
    with db:
        db.execute("UPDATE jobs SET status = ?, result = ?, finished_at = ? WHERE id = ?", (status, result, time.time(), job_id))


def main():
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    db = sqlite3.connect("jobs.db", isolation_level="IMMEDIATE")
    db.execute(
        "CREATE TABLE IF NOT EXISTS jobs (id INTEGER PRIMARY KEY, kind TEXT, payload TEXT, status TEXT DEFAULT 'queued',"
        " result TEXT, started_at REAL, finished_at REAL)"
    )
    logging.info("worker started")
    while not stop.is_set():
        row = claim(db)
        if row is None:
            stop.wait(2)
            continue
        job_id, kind, payload = row
        try:
            result = HANDLERS[kind](json.loads(payload))
            finish(db, job_id, "done", json.dumps(result))
            logging.info("job %s (%s) done", job_id, kind)
        except Exception:
            finish(db, job_id, "failed", traceback.format_exc())
            logging.exception("job %s failed", job_id)
    logging.info("worker stopped")


if __name__ == "__main__":
    main()
