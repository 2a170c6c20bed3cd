#!/usr/bin/env python3
"""Safe replacement for rm: put, list, restore, empty."""
import json
import shutil
import sys
import time
import uuid
from pathlib import Path

TRASH = Path.home() / ".trash"
INDEX = TRASH / "index.json"


def load():
    try:
        return json.loads(INDEX.read_text())
    except FileNotFoundError:
        return {}


def save(index):
    INDEX.write_text(json.dumps(index, indent=1))


def put(names):
    index = load()
    for name in names:
        path = Path(name).absolute()
        if not path.exists() and not path.is_symlink():
            print(f"{name}: no such file", file=sys.stderr)
            continue
        key = uuid.uuid4().hex[:8]
        shutil.move(str(path), str(TRASH / key))
        index[key] = {"path": str(path), "time": time.time()}
        save(index)


def list_():
    for key, info in sorted(load().items(), key=lambda kv: kv[1]["time"]):
        print(key, time.strftime("%Y-%m-%d %H:%M", time.localtime(info["time"])), info["path"])


def restore(key):
    index = load()
    info = index.pop(key, None)
    if info is None:
        sys.exit("unknown id")
    dest = Path(info["path"])
    if dest.exists():
        sys.exit(f"{dest} exists already")
    dest.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(str(TRASH / key), str(dest))
    save(index)


def empty(days=0):
    index = load()
    for key, info in list(index.items()):
        if time.time() - info["time"] >= days * 86400:
            target = TRASH / key
            if target.is_dir() and not target.is_symlink():
                shutil.rmtree(target)
            else:
                target.unlink(missing_ok=True)
            del index[key]
    save(index)


if __name__ == "__main__":
    TRASH.mkdir(exist_ok=True)
    match sys.argv[1:]:
        case ["put", *names] if names:
            put(names)
        case ["list"]:
            list_()
        case ["restore", key]:
            restore(key)
        case ["empty", *rest]:
            empty(float(rest[0]) if rest else 0)
        case _:
            sys.exit("usage: trash_cli.py put FILE... | list | restore ID | empty [DAYS]")
