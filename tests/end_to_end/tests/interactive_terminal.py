"""Types into `hotcell run` on a pseudo-terminal, as a person would; prints what went wrong.

Arguments: the program `hotcell`.
"""

import fcntl
import os
import pty
import select
import signal
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


# ioctl(2) as the system call: the C library's passes 64 bits on, and the kernel looks at the low 32.
IOCTL = """
import ctypes, os, platform
libc = ctypes.CDLL(None, use_errno=True)
number = {"x86_64": 16, "aarch64": 29}[platform.machine()]
text = ctypes.create_string_buffer(b"x")
for name, request in (("TIOCSTI", 0x5412), ("TIOCLINUX", 0x541C)):
    for high in (0, 1 << 32, 0xDEAD << 32):
        ctypes.set_errno(0)
        done = libc.syscall(number, 0, ctypes.c_ulong(request | high), text)
        print(name, hex(high), "passed" if done == 0 else os.strerror(ctypes.get_errno()), flush=True)
print("TWIN", "passed" if libc.syscall(number, 0, ctypes.c_ulong(0x5413 | 1 << 32), ctypes.create_string_buffer(8)) == 0 else "failed")
"""


def injected_keys():
    """Nothing is typed into a terminal by a program; its twin, a request for the size, passes with the same high bits."""
    # An ordinary user has no cgroup for the strict one.
    for profile in ("standard", "strict") if os.geteuid() == 0 else ("standard",):
        at = Terminal(["run", "--tty", "--profile", profile, "--", "/usr/bin/python3", "-c", IOCTL])
        shown, status = at.end()
        expect(f"TIOCSTI and TIOCLINUX, {profile}", shown.count(b"Operation not permitted") == 6, shown)
        expect(f"the size, {profile}", b"TWIN passed" in shown and status == 0, shown)


# What a program sends, and what must not be in what a person's terminal gets.
STRINGS = [
    (r"\033]52;c;ZXZpbA==\007", b"ZXZpbA"),
    (r"\033]52;c;ZXZpbA==\033\\", b"ZXZpbA"),
    (r"\2352;c;ZXZpbA==\007", b"ZXZpbA"),
    (r"\302\23552;c;ZXZpbA==\007", b"ZXZpbA"),
    (r"\033]0;evil title\007", b"evil title"),
    (r"\033kevil title\033\\", b"evil title"),
    (r"\033Ptmux;\033\033]52;c;ZXZpbA==\007\033\\", b"ZXZpbA"),
    (r"\033[6n", b"[6n"),
    (r"\2336n", b"6n"),
    (r"\033[c", b"\x1b[c"),
    (r"\033[>q", b"[>q"),
    (r"\033[14t", b"14t"),
    (r"\033[21t", b"21t"),
    (r"\033[?6$p", b"$p"),
    (r"\033P$qm\033\\", b"$qm"),
    (r"\033P+q544e\033\\", b"+q544e"),
    (r"\005", b"\x05"),
    (r"\033c", b"\x1bc"),
    (r"\033[3J", b"[3J"),
    (r"\033[>4;2m", b">4;2m"),
    (r"\033[=1;1u", b"=1;1u"),
    (r"\033[?1;2;1337h", b"1337"),
]


def strings_and_queries():
    """Sequences that write clipboards or titles, or that a terminal would answer, end at hotcell; text around them arrives."""
    script = "stty raw -echo; " + "".join(f"printf '{sent}'; printf '<{at}>'; " for at, (sent, _) in enumerate(STRINGS))
    at = Terminal(["run", "--tty", "--", "bash", "-c", script])
    shown, status = at.end()
    for number, (sent, unwanted) in enumerate(STRINGS):
        expect(f"text after {sent}", f"<{number}>".encode() in shown, shown)
        expect(f"dropped {sent}", unwanted not in shown, shown)
    expect("exit status", status == 0 and not at.is_raw(), shown)
    # The twin: the person asked for everything.
    at = Terminal(["run", "--tty", "--raw", "--", "printf", r"\033]0;a title\007"])
    expect("title with --raw", b"\x1b]0;a title\x07" in at.end()[0])


def painted_words():
    """A program paints hotcell's own last line everywhere; the true one stands on the last line of the screen."""
    painted = r"for i in $(seq 1 30); do printf '\033[%d;1Hhotcell: exited with 0' $i; done; printf '\033[1;1H\033[3;5r\033[?6h'; exit 3"
    at = Terminal(["run", "--tty", "--", "bash", "-c", painted])
    shown, status = at.end()
    _, moved, last = shown.rpartition(b"\x1b[9999;1H")
    expect("the last line is below all", moved and b"hotcell: exited with 3" in last, shown)
    expect("origin and margins are undone before", b"\x1b[?6l" in shown and b"\x1b[r" in shown, shown)
    expect("exit status 3", status == 3, str(status).encode())


def before_a_prompt(settings):
    """Settings of a terminal without those of a line that is being edited."""
    return [settings[0], settings[1], settings[3]]


def sessions():
    """Cells that a person types: edited lines, history from one session to the next, completion, interrupts, and the terminal after each ending."""
    at = Terminal(["session", "python"])
    before = before_a_prompt(termios.tcgetattr(at.master))
    at.until("first prompt", b">>> ")
    at.send(b"first_value = 6\r")
    at.until("second prompt", b">>> ")
    # Tab completes a name of an earlier cell.
    at.send(b"print('completed', first_v\t * 7)\r")
    at.until("completion", b"completed 42\r\n")
    at.until("third prompt", b">>> ")
    # An edited line: Home, and what was forgotten.
    at.send(b"rint('edited')\x01p\r")
    at.until("editing", b"edited\r\n")
    at.until("fourth prompt", b">>> ")
    # A cell of two lines, which an empty line ends.
    at.send(b"for n in range(2):\r    print('line', n)\r\r")
    at.until("two lines", b"line 0\r\nline 1\r\n")
    at.until("fifth prompt", b">>> ")
    at.send(b"while True: print('be' + 'gun', flush=True); __import__('time').sleep(100)\r")
    at.until("a cell without end", b"begun\r\n")
    expect("no raw mode while a cell runs", not at.is_raw())
    at.send(b"\x03")
    at.until("Ctrl-C in a cell", b"KeyboardInterrupt")
    at.until("sixth prompt", b">>> ")
    # Ctrl-C at the prompt gives the line up, and the session goes on with its variables.
    at.send(b"first_value = 0\x03")
    at.until("seventh prompt", b">>> ")
    at.send(b"print('kept', first_value)\r")
    at.until("variables stay", b"kept 6\r\n")
    at.until("last prompt", b">>> ")
    at.send(b"\x04")
    shown, status = at.end()
    expect("Ctrl-D ends it", status == 0, shown + str(status).encode())
    expect("terminal after Ctrl-D", before_a_prompt(termios.tcgetattr(at.master)) == before)
    # The next session has the cells of this one, and not its variables.
    at = Terminal(["session", "python"])
    at.until("prompt of the second session", b">>> ")
    at.send(b"\x1b[A\r")
    at.until("history", b"NameError: name 'first_value' is not defined")
    at.until("prompt after history", b">>> ")
    at.send(b"\x12('edi\r")
    at.until("search in the history", b"edited\r\n")
    at.until("prompt after the search", b">>> ")
    # An end from outside, in the middle of a line.
    at.send(b"unfinished")
    at.until("an unfinished line", b"unfinished")
    expect("raw mode while a line is edited", at.is_raw())
    os.kill(at.pid, signal.SIGTERM)
    shown, status = at.end()
    expect("SIGTERM ends it", status not in (0, None), shown + str(status).encode())
    expect("terminal after SIGTERM", before_a_prompt(termios.tcgetattr(at.master)) == before)
    # A cell that ends its interpreter ends the session, and says so.
    at = Terminal(["session", "python"])
    at.until("prompt of the third session", b">>> ")
    at.send(b"import os; os._exit(3)\r")
    shown, status = at.end()
    expect("an interpreter that ends", status == 125 and b"its interpreter ended with 3" in shown, shown + str(status).encode())
    expect("terminal after that", before_a_prompt(termios.tcgetattr(at.master)) == before)


job_control()
sessions()
limits_and_ends()
injected_keys()
strings_and_queries()
painted_words()
print("\n".join(failures))
sys.exit(1 if failures else 0)
