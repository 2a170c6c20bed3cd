import asyncio
import functools
import inspect
import logging
import random
import time

log = logging.getLogger(__name__)


def retry(exceptions=(Exception,), tries=4, delay=0.5, backoff=2.0, jitter=0.1):
    def delays():
        current = delay
        for _ in range(tries - 1):
            yield current + random.uniform(0, jitter)
            current *= backoff

    def decorator(fn):
        if inspect.iscoroutinefunction(fn):
            @functools.wraps(fn)
            async def async_wrapper(*args, **kwargs):
                for wait in delays():
                    try:
                        return await fn(*args, **kwargs)
                    except exceptions as exc:
                        log.warning("%s failed (%s), retry in %.2fs", fn.__name__, exc, wait)
                        await asyncio.sleep(wait)
                return await fn(*args, **kwargs)
            return async_wrapper

        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            for wait in delays():
                try:
                    return fn(*args, **kwargs)
                except exceptions as exc:
                    log.warning("%s failed (%s), retry in %.2fs", fn.__name__, exc, wait)
                    time.sleep(wait)
            return fn(*args, **kwargs)
        return wrapper
    return decorator


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    attempts = 0

    @retry(exceptions=(ValueError,), delay=0.1)
    def flaky():
        global attempts
        attempts += 1
        if attempts < 3:
            raise ValueError("not yet")
        return "ok"

    print(flaky(), attempts)
