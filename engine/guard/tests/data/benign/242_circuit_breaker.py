import enum
import functools
import threading
import time


class State(enum.Enum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


class CircuitOpenError(RuntimeError):
    pass


class CircuitBreaker:
    def __init__(self, failures=5, reset_after=30.0, expected=(Exception,), clock=time.monotonic):
        self.failures, self.reset_after, self.expected = failures, reset_after, expected
        self._clock = clock
        self._lock = threading.RLock()
        self._state = State.CLOSED
        self._count = 0
        self._opened_at = 0.0

    @property
    def state(self):
        with self._lock:
            if self._state is State.OPEN and self._clock() - self._opened_at >= self.reset_after:
                self._state = State.HALF_OPEN
            return self._state

    def call(self, fn, *args, **kwargs):
        if self.state is State.OPEN:
            raise CircuitOpenError(f"{fn.__name__}: circuit is open")
        try:
            result = fn(*args, **kwargs)
        except self.expected:
            with self._lock:
                self._count += 1
                if self._state is State.HALF_OPEN or self._count >= self.failures:
                    self._state = State.OPEN
                    self._opened_at = self._clock()
            raise
        with self._lock:
            self._count = 0
            self._state = State.CLOSED
        return result

    def __call__(self, fn):
        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            return self.call(fn, *args, **kwargs)
        return wrapper


if __name__ == "__main__":
    now = [0.0]
    cb = CircuitBreaker(failures=2, reset_after=10, clock=lambda: now[0])

    @cb
    def fetch(ok):
        if not ok:
            raise ConnectionError("nope")
        return "data"

    for _ in range(3):
        try:
            fetch(False)
        except Exception as e:
            print(type(e).__name__, cb.state)
    now[0] = 11
    print(cb.state, fetch(True), cb.state)
