import logging
import os
import shutil
import tempfile
import time
from pathlib import Path

from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_EXECUTED
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.blocking import BlockingScheduler

logging.basicConfig(level=logging.INFO)
log = logging.getLogger("jobs")

CACHE_DIR = Path(os.environ.get("CACHE_DIR", Path(tempfile.gettempdir()) / "myapp-cache"))


def cleanup_cache(max_age_hours=48):
    cutoff = time.time() - max_age_hours * 3600
    for entry in CACHE_DIR.glob("*"):
        if entry.stat().st_mtime < cutoff:
            if entry.is_dir():
                shutil.rmtree(entry)
            else:
                entry.unlink()
            log.info("removed %s", entry)


def report():
    total, used, free = shutil.disk_usage("/")
    log.info("disk: %.1f%% used, %.1f GB free", used / total * 100, free / 1e9)


def listener(event):
    if event.exception:
        log.error("job %s crashed: %s", event.job_id, event.exception)
    else:
        log.info("job %s finished", event.job_id)


def main():
    CACHE_DIR.mkdir(exist_ok=True)
    scheduler = BlockingScheduler(
        jobstores={"default": SQLAlchemyJobStore(url="sqlite:///jobs.sqlite")},
        executors={"default": ThreadPoolExecutor(4)},
        job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": 600},
        timezone="Europe/Berlin",
    )
    scheduler.add_listener(listener, EVENT_JOB_EXECUTED | EVENT_JOB_ERROR)
    scheduler.add_job(cleanup_cache, "cron", hour=3, minute=30, id="cleanup", replace_existing=True)
    scheduler.add_job(report, "interval", hours=1, id="report", replace_existing=True)
    try:
        scheduler.start()
    except (KeyboardInterrupt, SystemExit):
        log.info("shutting down")


if __name__ == "__main__":
    main()
