import functools
import hashlib
import pickle
import time
from pathlib import Path

CACHE_DIR = Path.home() / ".cache" / "mytool"


def disk_cache(ttl=3600, cache_dir=CACHE_DIR):
    """Cache the return value of a function on disk for ``ttl`` seconds."""
    cache_dir.mkdir(parents=True, exist_ok=True)

    def decorator(func):
        @functools.wraps(func)
        def wrapper(*args, **kwargs):
            raw = pickle.dumps((func.__module__, func.__qualname__, args, sorted(kwargs.items())))
            key = hashlib.sha1(raw).hexdigest()
            path = cache_dir / f"{key}.pkl"
            if path.exists() and time.time() - path.stat().st_mtime < ttl:
                try:
                    with path.open("rb") as f:
                        return pickle.load(f)
                except (pickle.UnpicklingError, EOFError):
                    path.unlink(missing_ok=True)
            result = func(*args, **kwargs)
            tmp = path.with_suffix(".tmp")
            with tmp.open("wb") as f:
                pickle.dump(result, f, protocol=pickle.HIGHEST_PROTOCOL)
            tmp.replace(path)
            return result

        def clear():
            for p in cache_dir.glob("*.pkl"):
                p.unlink()

        wrapper.cache_clear = clear
        return wrapper

    return decorator


@disk_cache(ttl=60)
def slow_square(n):
    time.sleep(2)
    return n * n


if __name__ == "__main__":
    for _ in range(2):
        start = time.perf_counter()
        print(slow_square(12), f"{time.perf_counter() - start:.3f}s")
