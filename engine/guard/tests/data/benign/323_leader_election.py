import contextlib
import os
import socket
import threading
import time
import uuid

import redis

RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"
RENEW = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end"


class LockLost(RuntimeError):
    pass


class RedisLock:
    def __init__(self, client, name, ttl=10.0):
        self.client, self.key, self.ttl_ms = client, f"lock:{name}", int(ttl * 1000)
        self.token = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex}"
        self._release = client.register_script(RELEASE)
        self._renew = client.register_script(RENEW)
        self._stop = threading.Event()
        self.lost = threading.Event()

    def acquire(self):
        ok = self.client.set(self.key, self.token, nx=True, px=self.ttl_ms)
        if ok:
            self._stop.clear()
            threading.Thread(target=self._keep_alive, daemon=True).start()
        return bool(ok)

    def _keep_alive(self):
        while not self._stop.wait(self.ttl_ms / 3000):
            try:
                if not self._renew(keys=[self.key], args=[self.token, self.ttl_ms]):
                    self.lost.set()
                    return
            except redis.RedisError as e:
                print("renewal failed:", e)

    def release(self):
        self._stop.set()
        self._release(keys=[self.key], args=[self.token])

    @contextlib.contextmanager
    def held(self):
        if not self.acquire():
            raise LockLost("somebody else has the lock")
        try:
            yield self
        finally:
            self.release()


if __name__ == "__main__":
    client = redis.Redis(decode_responses=True)
    while True:
        lock = RedisLock(client, "nightly-report")
        if lock.acquire():
            print("I am the leader:", lock.token)
            while not lock.lost.is_set():
                time.sleep(1)
        time.sleep(5)
