"""What a project says of how its tests start, as hotcell read it: its variables, its folder, its arguments, and what else runs tests."""
import os
import sys

_TOP = os.getcwd()
_WORDS = {}
_EXIT_OF_STEPS = 1
_TEMPORARY = "/tmp/hotcell-tox"


def _read_words():
    import json

    if len(sys.argv) < 2 or not sys.argv[1].startswith("--hotcell-words="):
        return {}
    text = sys.argv[1].split("=", 1)[1].replace("{hotcell:top}", json.dumps(_TOP)[1:-1])
    if "{hotcell:site}" in text:
        import sysconfig

        # Of an environment in the project, the place where the project itself lies: ids begin there.
        site = os.path.realpath(sysconfig.get_path("purelib"))
        text = text.replace("{hotcell:site}", json.dumps(site)[1:-1])
    return json.loads(text)


def _set_up():
    """Sets variables and folder. The interpreter reads some variables only at its own start: then it starts again."""
    words = _read_words()
    again = False
    for name, value in words.get("variables", ()):
        # Whoever runs the tests goes before the project, by `--env`; these two are always there.
        if os.environ.get(name) == value or name in os.environ and name not in ("LANG", "LC_ALL"):
            continue
        again = again or name.startswith("PYTHON") or name.startswith("LD_")
        os.environ[name] = value
    if again and "HOTCELL_AGAIN" not in os.environ:
        os.environ["HOTCELL_AGAIN"] = "1"
        os.execv(sys.executable, [sys.executable] + sys.argv)
    os.environ.pop("HOTCELL_AGAIN", None)
    if words:
        # tox makes an environment's temporary folder.
        if _TEMPORARY in sys.argv.pop(1):
            os.makedirs(_TEMPORARY, exist_ok=True)
        if words.get("folder"):
            # tox makes a folder that is not there.
            os.makedirs(words["folder"], exist_ok=True)
            os.chdir(words["folder"])
    return words


def _expanded(words):
    """Words as a shell would give them."""
    import glob

    out = []
    for word in words:
        if isinstance(word, dict):
            out += sorted(glob.glob(word["glob"])) or [word["glob"]]
        else:
            out.append(word)
    return out


def _argument_words():
    return _expanded(_WORDS.get("arguments", ()))


def _run_steps(tell):
    """Runs what else the project's words start; whether all of it went well. `tell` gets each name, status, time and message."""
    import subprocess
    import time

    good = True
    for step in _WORDS.get("steps", ()):
        argv = _expanded(step["words"])
        name = argv[0].rsplit("/", 1)[-1]
        if name.startswith("python") or name == "py":
            argv[0] = sys.executable
        elif name in ("pytest", "py.test", "coverage", "nose2"):
            argv = [sys.executable, "-m", {"py.test": "pytest"}.get(name, name)] + argv[1:]
        sys.stdout.flush()
        sys.stderr.flush()
        since, message = time.time(), None
        try:
            code = subprocess.call(
                argv,
                env=dict(os.environ, **dict(step["variables"])),
                cwd=os.path.join(_TOP, step["folder"]),
                stdin=subprocess.DEVNULL,
            )
            if code:
                message = "it ended with exit status %d; what it printed is in the output" % code
        except OSError as error:
            message = "it cannot be started: %s" % error
        good = good and message is None
        tell("command: " + step["name"], "passed" if message is None else "errored", (time.time() - since) * 1000.0, message)
    return good


_WORDS = _set_up()
