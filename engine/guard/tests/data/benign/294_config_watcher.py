import logging
import os
import signal
import threading
import time

import yaml

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(threadName)s %(message)s")
log = logging.getLogger(__name__)


class ConfigHolder:
    def __init__(self, path):
        self.path = path
        self._lock = threading.Lock()
        self._data = {}
        self._mtime = 0
        self.listeners = []
        self.reload()

    def reload(self, *_):
        try:
            with open(self.path) as f:
                data = yaml.safe_load(f) or {}
            if not isinstance(data, dict):
                raise ValueError("top level must be a mapping")
        except (OSError, ValueError, yaml.YAMLError) as e:
            log.error("config not reloaded: %s", e)
            return
        with self._lock:
            old, self._data = self._data, data
            self._mtime = os.stat(self.path).st_mtime
        changed = {k for k in old.keys() | data.keys() if old.get(k) != data.get(k)}
        if changed:
            log.info("config changed: %s", ", ".join(sorted(changed)))
            for fn in self.listeners:
                fn(changed)

    def get(self, key, default=None):
        with self._lock:
            return self._data.get(key, default)

    def watch(self, interval=2):
        while True:
            time.sleep(interval)
            try:
                if os.stat(self.path).st_mtime != self._mtime:
                    self.reload()
            except FileNotFoundError:
                pass


if __name__ == "__main__":
    cfg = ConfigHolder(os.environ.get("CONFIG", "service.yaml"))
    cfg.listeners.append(lambda keys: "log_level" in keys and log.setLevel(cfg.get("log_level", "INFO")))
    signal.signal(signal.SIGHUP, cfg.reload)
    threading.Thread(target=cfg.watch, name="watcher", daemon=True).start()
    while True:
        log.info("tick, greeting=%s", cfg.get("greeting"))
        time.sleep(cfg.get("interval", 5))
