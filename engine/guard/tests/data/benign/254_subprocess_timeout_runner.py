import os
import signal
import subprocess
import sys
import threading
from typing import NamedTuple


class Result(NamedTuple):
    returncode: int
    output: str
    timed_out: bool


def run(command: str, timeout: float | None = None, cwd: str | None = None, echo: bool = True) -> Result:
    """Run ``command`` in a shell; kill its whole process group after ``timeout`` seconds."""
    proc = subprocess.Popen(
        command, shell=True, cwd=cwd, text=True, bufsize=1,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )
    timed_out = threading.Event()

    def kill():
        timed_out.set()
        try:
            os.killpg(proc.pid, signal.SIGTERM)
            try:
                proc.wait(3)
            except subprocess.TimeoutExpired:
                os.killpg(proc.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    timer = threading.Timer(timeout, kill) if timeout else None
    if timer:
        timer.start()
    lines = []
    try:
        for line in proc.stdout:
            lines.append(line)
            if echo:
                sys.stdout.write(line)
        proc.wait()
    except KeyboardInterrupt:
        kill()
        raise
    finally:
        if timer:
            timer.cancel()
    return Result(proc.returncode, "".join(lines), timed_out.is_set())


if __name__ == "__main__":
    result = run("for i in 1 2 3 4 5; do echo line $i; sleep 1; done", timeout=3)
    print(result.returncode, "timed out" if result.timed_out else "finished")
