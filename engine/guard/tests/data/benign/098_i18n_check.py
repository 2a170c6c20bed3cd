"""Check that all locale files contain the keys of the reference language."""
import json
import re
import sys
from pathlib import Path

PLACEHOLDER = re.compile(r"\{(\w+)\}")


def flatten(data, prefix=""):
    for key, value in data.items():
        full = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from flatten(value, full + ".")
        else:
            yield full, value


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "locales")
    reference = sys.argv[2] if len(sys.argv) > 2 else "en"
    base = dict(flatten(json.loads((folder / f"{reference}.json").read_text("utf-8"))))
    problems = 0
    for path in sorted(folder.glob("*.json")):
        if path.stem == reference:
            continue
        other = dict(flatten(json.loads(path.read_text("utf-8"))))
        missing = base.keys() - other.keys()
        extra = other.keys() - base.keys()
        wrong = [
            k for k in base.keys() & other.keys()
            if set(PLACEHOLDER.findall(base[k])) != set(PLACEHOLDER.findall(other[k]))
        ]
        print(f"{path.stem}: {len(missing)} missing, {len(extra)} unused, {len(wrong)} placeholder mismatches")
        for k in sorted(missing):
            print(f"   - {k}: {base[k]!r}")
        for k in sorted(wrong):
            print(f"   ! {k}: {base[k]!r} vs {other[k]!r}")
        problems += len(missing) + len(wrong)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
