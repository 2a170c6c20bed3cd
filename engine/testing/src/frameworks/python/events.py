"""Tells hotcell, outside of the sandbox, which test starts and which has ended: one JSON object a line, on a pipe.

The tests run in the same process and may do anything to it. So everything that is needed later is looked up now,
the pipe moves out of their way, and nothing that goes wrong here ever reaches them.
"""
import os
import sys

_PIPE = 3
_WRITE_TIMEOUT = 5.0  # seconds that all writes together may wait for a reader
_MISSING = 86  # the exit code when the framework is not installed


def _make_emitter():
    import fcntl
    import json
    import select
    import stat
    import threading
    import time

    write, getpid, fstat, monotonic = os.write, os.getpid, os.fstat, time.monotonic
    poll, dumps, rlock = select.poll, json.dumps, threading.RLock()
    pid = getpid()
    state = {"fd": None, "patience": _WRITE_TIMEOUT}
    try:
        about = fstat(_PIPE)
        if stat.S_ISFIFO(about.st_mode):
            for least in (900, 200, 40):
                try:
                    state["fd"] = fcntl.fcntl(_PIPE, fcntl.F_DUPFD_CLOEXEC, least)
                    break
                except OSError:
                    pass
            os.close(_PIPE)
            flags = fcntl.fcntl(state["fd"], fcntl.F_GETFL)
            fcntl.fcntl(state["fd"], fcntl.F_SETFL, flags | os.O_NONBLOCK)
            state["is"] = (about.st_dev, about.st_ino)
    except Exception:
        pass

    def send(data):
        fd = state["fd"]
        about = fstat(fd)
        if (about.st_dev, about.st_ino) != state["is"]:
            raise OSError("the pipe is gone")
        while data:
            try:
                data = data[write(fd, data):]
            except BlockingIOError:
                since = monotonic()
                waiting = poll()
                waiting.register(fd, select.POLLOUT)
                if state["patience"] <= 0:
                    raise
                waiting.poll(state["patience"] * 1000)
                state["patience"] -= monotonic() - since

    def emit(event, **fields):
        # A forked child is not the run.
        if state["fd"] is None or getpid() != pid:
            return
        try:
            fields["e"] = event
            line = dumps({k: _clean(v) for k, v in fields.items() if v is not None}).encode("ascii") + b"\n"
            with rlock:
                send(line)
        except BaseException as error:
            # Half a line may be out; what follows would be read as its end. The run counts as not reported.
            state["fd"] = None
            # A time limit of the tests may strike here: that is theirs.
            if not isinstance(error, Exception):
                raise

    return emit


def _own(option):
    """The value of an option of ours, all of which come first, in any order; None without."""
    at = 1
    while at < len(sys.argv) and sys.argv[at].startswith("--hotcell-"):
        if sys.argv[at].startswith(option):
            return sys.argv.pop(at).split("=", 1)[1]
        at += 1
    return None


def _exit_code(ending):
    """What a SystemExit makes of the process."""
    if ending.code is None:
        return 0
    return int(ending.code) if isinstance(ending.code, int) else 1


def _clean(value):
    """A text without what JSON cannot say."""
    return value.encode("utf-8", "backslashreplace").decode("utf-8") if isinstance(value, str) else value


def _clip(text, most):
    """Head and tail of a text."""
    text = str(text)
    if len(text) > most:
        text = "%s\n... %d characters left out ...\n%s" % (text[: most // 2], len(text) - most, text[-(most // 2):])
    return text


def _inside(path, top):
    """A path below the project, without what is installed there."""
    # What Python names `<frozen os>` or `<string>` is no file.
    if os.path.basename(path).startswith("<"):
        return None
    path = os.path.relpath(os.path.join(top, path), top)
    return None if path.startswith(os.pardir) or "site-packages" in path else path


def _doubled(paths):
    """Tests that a later one of the same name in their class or file replaces, by the source: `FILE:LINE NAME`."""
    import ast
    import re

    heads = re.compile(r"^([ \t]*)(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)", re.M)
    # Decorators that give a function back and keep it nowhere.
    plain = ("pytest", "unittest", "mock", "patch", "parametrize", "given", "settings", "skip", "skipIf", "skipUnless")

    def is_plain(node):
        for one in node.decorator_list:
            one = one.func if isinstance(one, ast.Call) else one
            while isinstance(one, ast.Attribute):
                one = one.value
            if not isinstance(one, ast.Name) or one.id not in plain:
                return False
        return True

    def is_test(node):
        if isinstance(node, ast.ClassDef):
            return any(is_test(one) for one in node.body if not isinstance(one, ast.ClassDef))
        return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test")

    found = []
    for path in sorted(paths)[:300]:
        try:
            with open(path, "rb") as file:
                text = file.read(256 << 10)
            names = heads.findall(text.decode("utf-8", "replace"))
            if len(names) == len(set(names)):
                continue
            tree = ast.parse(text)
        except Exception:
            continue  # such as one that is longer
        for body in [tree.body] + [node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]:
            known = {}
            for node in body:
                if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    continue
                before = known.get(node.name)
                if before is not None and is_test(before) and is_plain(before) and is_plain(node):
                    found.append("%s:%d %s" % (_inside(path, _TOP), before.lineno, node.name))
                known[node.name] = node
    return found


def _counted(all, one, several):
    """Note about some of these; None without any."""
    listed = ", ".join(_clip(each, 200) for each in all[:3]) + (", ..." if len(all) > 3 else "")
    return "%d %s: %s" % (len(all), one if len(all) == 1 else several, listed) if all else None


def _note_doubled(paths):
    try:
        own = [path for path in paths if path.endswith(".py") and _inside(path, _TOP)]
        return _counted(_doubled(own), "test did not run, as a later one has its name", "tests did not run, as later ones have their names")
    except Exception:
        return None  # what it needs may have been changed by a test


def _become_module():
    """What `python -m` sets up: the current folder comes first on the path, not the folder of this file."""
    if not getattr(sys.flags, "safe_path", False) and not sys.flags.isolated:
        sys.path[0] = os.getcwd()
    sys.argv.pop(0)
    sys.argv.insert(0, "-m")


def _runtime():
    return {"python": "%d.%d.%d" % sys.version_info[:3]}


_emit = _make_emitter()
_cwd = _TOP
