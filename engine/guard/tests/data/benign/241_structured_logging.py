import contextvars
import json
import logging
import logging.config
import logging.handlers
import sys
import time
import uuid
from pathlib import Path

request_id = contextvars.ContextVar("request_id", default="-")


class JsonFormatter(logging.Formatter):
    RESERVED = set(vars(logging.makeLogRecord({}))) | {"message", "asctime"}

    def format(self, record):
        data = {
            "ts": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "request_id": request_id.get(),
        }
        data.update({k: v for k, v in vars(record).items() if k not in self.RESERVED})
        if record.exc_info:
            data["exception"] = self.formatException(record.exc_info)
        return json.dumps(data, default=str)


def setup(log_dir="logs", level="INFO"):
    Path(log_dir).mkdir(parents=True, exist_ok=True)
    logging.config.dictConfig({
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": JsonFormatter}, "plain": {"format": "%(asctime)s %(levelname)-8s %(name)s: %(message)s"}},
        "handlers": {
            "console": {"class": "logging.StreamHandler", "formatter": "plain", "stream": "ext://sys.stderr"},
            "file": {
                "class": "logging.handlers.RotatingFileHandler", "formatter": "json",
                "filename": f"{log_dir}/app.log", "maxBytes": 5_000_000, "backupCount": 5, "encoding": "utf-8",
            },
        },
        "root": {"level": level, "handlers": ["console", "file"]},
    })
    sys.excepthook = lambda *exc: logging.getLogger("uncaught").critical("uncaught exception", exc_info=exc)


if __name__ == "__main__":
    setup()
    log = logging.getLogger("demo")
    request_id.set(uuid.uuid4().hex[:8])
    log.info("user logged in", extra={"user_id": 42})
    try:
        1 / 0
    except ZeroDivisionError:
        log.exception("calculation failed")
