"""Token bucket rate limiter."""
import functools
import threading
import time


class TokenBucket:
    def __init__(self, rate: float, capacity: int):
        self.rate = rate
        self.capacity = capacity
        self._tokens = float(capacity)
        self._updated = time.monotonic()
        self._lock = threading.Lock()

    def _refill(self):
        now = time.monotonic()
        self._tokens = min(self.capacity, self._tokens + (now - self._updated) * self.rate)
        self._updated = now

    def try_acquire(self, n: int = 1) -> bool:
        with self._lock:
            self._refill()
            if self._tokens >= n:
                self._tokens -= n
                return True
            return False

    def acquire(self, n: int = 1, timeout: float | None = None) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self.try_acquire(n):
            if deadline is not None and time.monotonic() >= deadline:
                return False
            time.sleep(min(0.05, n / self.rate))
        return True


def rate_limited(rate, capacity=1):
    bucket = TokenBucket(rate, capacity)

    def decorator(fn):
        @functools.wraps(fn)
        def inner(*args, **kwargs):
            bucket.acquire()
            return fn(*args, **kwargs)
        return inner
    return decorator


@rate_limited(rate=2, capacity=2)
def call(i):
    print(f"{time.strftime('%X')} call {i}")


if __name__ == "__main__":
    for i in range(8):
        call(i)
