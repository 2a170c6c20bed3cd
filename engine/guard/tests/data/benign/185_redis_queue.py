"""A minimal redis based task queue.

    enqueue("tasks.reports.build", month="2024-01")
    python redis_queue.py worker
"""
import importlib
import json
import logging
import os
import sys
import time
import uuid

import redis

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
log = logging.getLogger("queue")
conn = redis.Redis.from_url(os.environ.get("REDIS_URL", "redis://localhost:6379/0"))
QUEUE, FAILED = "tasks", "tasks:failed"
ALLOWED_PREFIX = "tasks."
MAX_RETRIES = 3


def enqueue(func, *args, **kwargs):
    job = {"id": uuid.uuid4().hex, "func": func, "args": args, "kwargs": kwargs, "tries": 0}
    conn.lpush(QUEUE, json.dumps(job))
    return job["id"]


def resolve(dotted):
    if not dotted.startswith(ALLOWED_PREFIX):
        raise ValueError(f"{dotted} is not a registered task")
    module, _, name = dotted.rpartition(".")
    return getattr(importlib.import_module(module), name)


def work():
    log.info("waiting for jobs")
    while True:
        _, raw = conn.brpop(QUEUE)
        job = json.loads(raw)
        start = time.monotonic()
        try:
            resolve(job["func"])(*job["args"], **job["kwargs"])
        except Exception as exc:
            job["tries"] += 1
            job["error"] = repr(exc)
            log.exception("job %s failed (try %d)", job["id"], job["tries"])
            conn.lpush(QUEUE if job["tries"] < MAX_RETRIES else FAILED, json.dumps(job))
            time.sleep(1)
        else:
            log.info("%s finished in %.2fs", job["func"], time.monotonic() - start)


if __name__ == "__main__":
    if sys.argv[1:] == ["worker"]:
        try:
            work()
        except KeyboardInterrupt:
            log.info("stopped")
    else:
        print(conn.llen(QUEUE), "queued,", conn.llen(FAILED), "failed")
