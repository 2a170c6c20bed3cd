import json
import sys


def diff(a, b, path="$"):
    if type(a) is not type(b):
        yield path, a, b
    elif isinstance(a, dict):
        for key in sorted(a.keys() | b.keys()):
            sub = f"{path}.{key}"
            if key not in a:
                yield sub, MISSING, b[key]
            elif key not in b:
                yield sub, a[key], MISSING
            else:
                yield from diff(a[key], b[key], sub)
    elif isinstance(a, list):
        for i in range(max(len(a), len(b))):
            left = a[i] if i < len(a) else MISSING
            right = b[i] if i < len(b) else MISSING
            if left is MISSING or right is MISSING:
                yield f"{path}[{i}]", left, right
            else:
                yield from diff(left, right, f"{path}[{i}]")
    elif a != b:
        yield path, a, b


MISSING = object()


def show(value):
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    left, right = (json.load(open(p, encoding="utf-8")) for p in sys.argv[1:3])
    count = 0
    for path, a, b in diff(left, right):
        count += 1
        if a is MISSING:
            print(f"+ {path}: {show(b)}")
        elif b is MISSING:
            print(f"- {path}: {show(a)}")
        else:
            print(f"~ {path}: {show(a)} -> {show(b)}")
    sys.exit(1 if count else 0)
