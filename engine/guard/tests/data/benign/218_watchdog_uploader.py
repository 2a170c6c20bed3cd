import logging
import queue
import shutil
import subprocess
import threading
import time
from datetime import date
from pathlib import Path

from watchdog.events import FileSystemEventHandler
from watchdog.observers import Observer

INBOX = Path("/srv/scans/inbox")
ARCHIVE = Path("/srv/scans/archive")
FAILED = Path("/srv/scans/failed")

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
jobs = queue.Queue()


class Handler(FileSystemEventHandler):
    def on_created(self, event):
        if not event.is_directory and event.src_path.lower().endswith(".pdf"):
            jobs.put(Path(event.src_path))

    def on_moved(self, event):
        if event.dest_path.lower().endswith(".pdf"):
            jobs.put(Path(event.dest_path))


def wait_until_complete(path):
    size = -1
    while path.stat().st_size != size:
        size = path.stat().st_size
        time.sleep(2)


def process(path):
    wait_until_complete(path)
    folder = ARCHIVE / f"{date.today():%Y/%m}"
    folder.mkdir(parents=True, exist_ok=True)
    out = folder / path.name
    result = subprocess.run(["ocrmypdf", "--skip-text", "-l", "eng+deu", str(path), str(out)], capture_output=True, text=True)
    if result.returncode == 0:
        path.unlink()
        logging.info("archived %s", out)
    else:
        FAILED.mkdir(exist_ok=True)
        shutil.move(str(path), str(FAILED / path.name))
        logging.error("%s failed: %s", path.name, result.stderr.strip()[-300:])


def worker():
    while True:
        path = jobs.get()
        try:
            process(path)
        except Exception:
            logging.exception("error with %s", path)
        finally:
            jobs.task_done()


if __name__ == "__main__":
    threading.Thread(target=worker, daemon=True).start()
    for existing in INBOX.glob("*.pdf"):
        jobs.put(existing)
    observer = Observer()
    observer.schedule(Handler(), str(INBOX))
    observer.start()
    try:
        observer.join()
    except KeyboardInterrupt:
        observer.stop()
