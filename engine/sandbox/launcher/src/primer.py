# Runs in a primed interpreter before its job is there, in names of its own; nothing of it may be left for the program.
import io, os, posix, sys

for name in filter(None, modules.decode().split(",")):
    __import__(name)


def practise():
    # Touches what every run touches, so that its pages are there.
    place = {"__name__": "__main__", "__builtins__": __builtins__}
    exec(compile("import sys\nclass A:\n  def f(self, *a, **k): return [x for x in a]\n"
                 "try:\n  A().f(1)\n  raise ValueError(f'{1:d}')\nexcept ValueError as e: str(e)\n"
                 "print(1, file=sys.stdout)\nprint('%s' % 2, file=sys.stderr)\n", "<practice>", "exec"), place)
    sys.stdout.flush()


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


for _ in range(3):
    practise()
