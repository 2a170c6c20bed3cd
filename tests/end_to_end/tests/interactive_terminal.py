"""Types into `hotcell run` on a pseudo-terminal, as a person would; prints what went wrong.

Arguments: the program `hotcell`.
"""

import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time

HOTCELL = sys.argv[1]
WAIT = 30
failures = []


def expect(name, is_so, shown=b""):
    if not is_so:
        failures.append(f"{name}: {shown[-600:]!r}")


class Terminal:
    def __init__(self, words, rows=30, columns=100):
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.execve(HOTCELL, [HOTCELL, *words], {**os.environ, "TERM": "xterm-256color"})
        self.shown = b""

    def read(self):
        if select.select([self.master], [], [], 0.05)[0]:
            try:
                data = os.read(self.master, 65536)
            except OSError:
                return False
            self.shown += data
            return bool(data)
        return True

    def until(self, name, text):
        """Waits for a text; forgets everything up to its end."""
        end = time.monotonic() + WAIT
        while text not in self.shown and time.monotonic() < end and self.read():
            pass
        expect(name, text in self.shown, self.shown)
        self.shown = self.shown.partition(text)[2]

    def send(self, text):
        os.write(self.master, text)

    def is_raw(self):
        return not termios.tcgetattr(self.master)[3] & termios.ICANON

    def end(self):
        """Reads to the end; returns everything that was not yet forgotten, and the exit status."""
        last = time.monotonic() + WAIT
        while time.monotonic() < last and self.read():
            pass
        return self.shown, os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def job_control():
    at = Terminal(["run", "--", "bash", "--norc"])
    at.until("prompt", b"bash-")
    expect("raw mode", at.is_raw())
    at.send(b"stty size; tty\r")
    at.until("size", b"30 100\r\n")
    at.until("own terminal", b"/dev/pts/0")
    fcntl.ioctl(at.master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    at.send(b"until [ \"$(stty size)\" = '40 120' ]; do sleep .1; done; echo res'ized'\r")
    at.until("resized", b"resized")
    at.send(b"sh -c 'echo wait''ing; exec sleep 100'\r")
    at.until("waiting", b"waiting\r\n")
    at.send(b"\x03")
    at.send(b"echo status=$?\r")
    at.until("Ctrl-C", b"status=130")
    at.send(b"sh -c 'echo wait''ing; exec sleep 100'\r")
    at.until("waiting again", b"waiting\r\n")
    at.send(b"\x1a")
    at.until("Ctrl-Z", b"Stopped")
    at.send(b"kill %1; echo gone'.'\r")
    at.until("killed", b"gone.")
    script = r"printf 'A\033]52;c;eA==\007B\033[6nC\033P$qm\033\\D\033[?1049hE\033[?25l\n'; stty raw -echo; exit 7"
    at.send(script.encode() + b"\r")
    at.until("the echo of the command", b"exit 7\r\n")
    shown, status = at.end()
    expect("exit status", status == 7, str(status).encode())
    expect("no clipboard and no query", b"ABCD" in shown, shown)
    expect("screen and cursor are undone", b"\x1b[?1049l" in shown and b"\x1b[?25h" in shown, shown)
    expect("last line", b"hotcell: exited with 7" in shown.rpartition(b"\x1b[?1049l")[2], shown)
    expect("terminal is restored", not at.is_raw())


def limits_and_ends():
    at = Terminal(["run", "--tty", "--timeout", "4s", "--", "sh", "-c", "stty raw -echo; echo be'gun'; sleep 100"])
    shown, status = at.end()
    expect("time limit", status == 124 and b"begun" in shown, shown)
    expect("terminal after a limit", not at.is_raw())
    at = Terminal(["run", "-t", "--", "sh", "-c", "trap '' QUIT; stty -isig; echo be'gun'; sleep 100"])
    at.until("begun", b"begun")
    for _ in range(3):
        at.send(b"\x1c")
        time.sleep(0.1)
    shown, status = at.end()
    expect("Ctrl-\\ three times", status not in (0, None) and not at.is_raw(), shown + str(status).encode())
    at = Terminal(["run", "-T", "--", "bash", "-c", "tty"])
    shown, _ = at.end()
    expect("no terminal", b"not a tty" in shown, shown)


job_control()
limits_and_ends()
print("\n".join(failures))
sys.exit(1 if failures else 0)
