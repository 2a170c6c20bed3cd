#!/usr/bin/env python3
"""Generate dataclass source code from a JSON document."""
import json
import keyword
import re
import sys


def class_name(key):
    return "".join(w.capitalize() for w in re.split(r"[^a-zA-Z0-9]+", key)) or "Model"


def field_name(key):
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key).lower()
    name = re.sub(r"\W+", "_", name)
    if keyword.iskeyword(name) or name[0].isdigit():
        name = f"{name}_"
    return name


class Generator:
    def __init__(self):
        self.classes = {}

    def type_of(self, key, value):
        if value is None:
            return "Any"
        if isinstance(value, bool):
            return "bool"
        if isinstance(value, (int, float, str)):
            return type(value).__name__
        if isinstance(value, list):
            inner = {self.type_of(key.rstrip("s"), v) for v in value} or {"Any"}
            return f"list[{' | '.join(sorted(inner))}]"
        return self.add(class_name(key), value)

    def add(self, name, obj):
        fields = {field_name(k): self.type_of(k, v) for k, v in obj.items()}
        existing = self.classes.setdefault(name, {})
        for f, t in fields.items():
            existing[f] = t if existing.get(f, t) == t else f"{existing[f]} | {t}"
        return name

    def render(self):
        out = ["from __future__ import annotations", "", "from dataclasses import dataclass", "from typing import Any"]
        for name, fields in self.classes.items():
            out += ["", "", "@dataclass", f"class {name}:"]
            out += [f"    {f}: {t}" for f, t in fields.items()] or ["    pass"]
        return "\n".join(out) + "\n"


if __name__ == "__main__":
    data = json.load(open(sys.argv[1]) if len(sys.argv) > 1 else sys.stdin)
    gen = Generator()
    gen.add("Root", data[0] if isinstance(data, list) else data)
    sys.stdout.write(gen.render())
