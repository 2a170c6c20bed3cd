"""Execute the python code blocks of markdown files, sharing one namespace per file."""
import contextlib
import io
import os
import re
import sys
import tempfile
import traceback
from pathlib import Path

BLOCK = re.compile(r"^```python(?P<opts>[^\n]*)\n(?P<code>.*?)^```", re.S | re.M)


def run_file(path):
    text = path.read_text(encoding="utf-8")
    namespace = {"__name__": "__doc_test__"}
    failures = 0
    for m in BLOCK.finditer(text):
        if "no-run" in m["opts"]:
            continue
        line = text.count("\n", 0, m.start()) + 1
        code = "\n" * line + m["code"]  # keep the line numbers right
        out = io.StringIO()
        try:
            with contextlib.redirect_stdout(out):
                exec(compile(code, str(path), "exec"), namespace)
        except Exception:
            failures += 1
            print(f"FAILED {path}:{line}")
            traceback.print_exc(limit=-1)
            if out.getvalue():
                print("output before the error:\n" + out.getvalue())
    return failures


def main():
    files = [Path(p).resolve() for p in sys.argv[1:]] or sorted(Path("docs").resolve().rglob("*.md"))
    total = 0
    for path in files:
        with tempfile.TemporaryDirectory() as tmp:
            old = os.getcwd()
            os.chdir(tmp)
            try:
                n = run_file(path)
            finally:
                os.chdir(old)
        print(f"{'ok    ' if not n else 'failed'} {path.name}")
        total += n
    sys.exit(1 if total else 0)


if __name__ == "__main__":
    main()
