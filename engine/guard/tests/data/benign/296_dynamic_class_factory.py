"""Three ways of creating things at runtime in Python."""
import functools
import keyword
import time

# 1. classes with type()
def make_model(name, **fields):
    def __init__(self, **kwargs):
        for key, default in fields.items():
            setattr(self, key, kwargs.pop(key, default))
        if kwargs:
            raise TypeError(f"unexpected arguments: {', '.join(kwargs)}")

    def __repr__(self):
        args = ", ".join(f"{k}={getattr(self, k)!r}" for k in fields)
        return f"{name}({args})"

    return type(name, (), {"__init__": __init__, "__repr__": __repr__, "fields": tuple(fields)})


# 2. a proxy which logs every call
class LoggingProxy:
    def __init__(self, target):
        object.__setattr__(self, "_target", target)

    def __getattr__(self, name):
        value = getattr(self._target, name)
        if not callable(value):
            return value

        @functools.wraps(value)
        def wrapper(*args, **kwargs):
            start = time.perf_counter()
            try:
                return value(*args, **kwargs)
            finally:
                print(f"{type(self._target).__name__}.{name} took {(time.perf_counter() - start) * 1e6:.0f}us")
        return wrapper


# 3. generated source, in the same way as collections.namedtuple did
TEMPLATE = """
class {name}:
    __slots__ = {slots!r}

    def __init__(self, {args}):
{body}

    def __eq__(self, other):
        return isinstance(other, {name}) and {compare}
"""


def struct(name, *fields):
    for f in (name, *fields):
        if not f.isidentifier() or keyword.iskeyword(f):
            raise ValueError(f"invalid name {f!r}")
    source = TEMPLATE.format(
        name=name, slots=fields, args=", ".join(fields),
        body="\n".join(f"        self.{f} = {f}" for f in fields),
        compare=" and ".join(f"self.{f} == other.{f}" for f in fields),
    )
    namespace = {}
    exec(source, namespace)
    return namespace[name]


if __name__ == "__main__":
    Car = make_model("Car", brand="?", wheels=4)
    print(Car(brand="ACME"))
    words = LoggingProxy([3, 1, 2])
    words.sort()
    words.append(9)
    Point = struct("Point", "x", "y")
    assert Point(1, 2) == Point(1, 2)
