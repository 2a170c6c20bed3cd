# Runs in a primed interpreter before its job is there, in names of its own; nothing of it may be left for the program.
import io, os, posix, sys

names = [name for name in modules.decode().split(",") if name]
had_gc = "gc" in sys.modules
for name in names:
    try:
        __import__(name.rstrip("?"))
    except ImportError:
        if not name.endswith("?"):
            raise


def practise():
    # Touches what every run touches, so that its pages are there.
    for _ in range(3):
        place = {"__name__": "__main__", "__builtins__": __builtins__}
        exec(compile("import sys\nclass A:\n  def f(self, *a, **k): return [x for x in a]\n"
                     "try:\n  A().f(1)\n  raise ValueError(f'{1:d}')\nexcept ValueError as e: str(e)\n"
                     "print(1, file=sys.stdout)\nprint('%s' % 2, file=sys.stderr)\n", "<practice>", "exec"), place)
        sys.stdout.flush()
        sys.stderr.flush()


def check():
    # What start files and modules did that would be lost when the job comes, or would be in its way.
    own = {}
    for fd in os.listdir("/proc/self/fd"):
        try:
            own[fd] = os.readlink("/proc/self/fd/" + fd)
        except OSError:
            pass  # the folder that was listed
    # The interpreter's own copy of it changes with os.environ.
    with io.open("/proc/self/environ", "rb") as file:
        pairs = (pair.partition(b"=") for pair in file.read().split(b"\0") if pair)
        environ = {name: value for name, _, value in pairs if name != b"LD_PRELOAD"}
    umask = os.umask(0o022)
    sys.stdout.flush()
    sys.stderr.flush()
    ok = (list(own) == ["0", "1", "2", "3", "4"] and own["0"] == "/dev/null" and own["1"] == own["2"] == own["4"]
          and len(os.listdir("/proc/self/task")) == 1 and os.getcwd() == "/" and umask == 0o022
          and posix.environ == environ and sys.argv == ["-c"]
          and sys.stdin is sys.__stdin__ and sys.stdout is sys.__stdout__ and sys.stderr is sys.__stderr__)
    if not ok:
        raise RuntimeError


def stream(name, fd, mode, buffering, old):
    # As the interpreter makes them: what it knows of a descriptor (is it a terminal, can it seek) it asks once.
    buffered = io.open(fd, mode + "b", buffering, closefd=False)
    raw = buffered.raw
    raw.name = name
    lines = fd == 2 or raw.isatty()
    text = io.TextIOWrapper(buffered, old.encoding, old.errors, "\n", lines)
    text.mode = mode
    return text


def finish(variables):
    started_with = dict(posix.environ)
    pairs = {}
    for variable in variables:
        name, _, value = variable.partition(b"=")
        pairs.setdefault(name, value)
    if pairs != started_with:
        for name in list(os.environb):
            del os.environb[name]
        os.environb.update(pairs)
        posix.environ.clear()
        posix.environ.update(pairs)
    sys.stdin = sys.__stdin__ = stream("<stdin>", 0, "r", -1, sys.stdin)
    sys.stdout = sys.__stdout__ = stream("<stdout>", 1, "w", -1, sys.stdout)
    sys.stderr = sys.__stderr__ = stream("<stderr>", 2, "w", -1, sys.stderr)


check()
