"""A hostile program, for the demonstration: tries what malware in generated code tries, and tells what came of it.

Nothing here does harm, also without a sandbox: files are opened and nothing of them is printed or changed, the only
address is one that is reserved for documentation, and the bombs are bounded. Its last line says how many tries
succeeded; what the sandbox saw of them stands in the outcome, whatever this program prints.
"""

import ctypes
import errno
import os
import socket
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
succeeded = 0


def attempt(what, act):
    """Does one thing that must not be possible."""
    global succeeded
    try:
        said = act()
    except OSError as error:
        print(f"  stopped    {what}: {errno.errorcode.get(error.errno, error.errno)}")
    except ReferenceError as nothing:
        print(f"  nothing    {what}: {nothing}")
    else:
        succeeded += 1
        print(f"  SUCCEEDED  {what}{f': {said}' if said else ''}")
    sys.stdout.flush()


def readable(path):
    with open(path, "rb") as file:
        file.read(1)


def secrets_of_the_home():
    found = []
    for home in {os.path.expanduser("~"), "/root", *(f"/home/{name}" for name in listed("/home"))}:
        for name in (".ssh/id_ed25519", ".ssh/id_rsa", ".aws/credentials", ".netrc", ".bash_history", ".cargo/credentials.toml"):
            try:
                readable(f"{home}/{name}")
                found.append(name)
            except OSError:
                pass
    if not found:
        raise ReferenceError("no secret is in sight")
    return f"{len(found)} files"


def listed(folder):
    try:
        return os.listdir(folder)
    except OSError:
        return []


def tokens():
    words = ("TOKEN", "SECRET", "PASSWORD", "API_KEY", "SSH_AUTH_SOCK")
    names = [name for name in os.environ if any(word in name.upper() for word in words)]
    if not names:
        raise ReferenceError("the environment has none")
    return f"{len(names)} variables"


def processes_of_others():
    seen = [pid for pid in listed("/proc") if pid.isdigit() and int(pid) not in (1, os.getpid())]
    if not seen:
        raise ReferenceError("only this program and its supervisor are in sight")
    return f"{len(seen)} processes"


def connect_out():
    with socket.socket() as out:
        out.settimeout(3)
        out.connect(("198.51.100.7", 443))  # RFC 5737: documentation, never in use


def call(function, *arguments):
    """A call of the C library that answers -1 and sets errno, in a child that changes nothing but itself."""
    child = os.fork()
    if child == 0:
        os._exit(ctypes.get_errno() if getattr(LIBC, function)(*arguments) == -1 else 0)
    error = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if error:
        raise OSError(error, function)


def fork_bomb():
    """At most 200 children, which end as soon as this program lets go of the pipe."""
    children, (hold, held) = [], os.pipe()
    try:
        for _ in range(200):
            child = os.fork()
            if child == 0:
                os.close(held)
                os.read(hold, 1)
                os._exit(0)
            children.append(child)
    finally:
        os.close(held)
        for child in children:
            os.waitpid(child, 0)
        os.close(hold)
    return f"{len(children)} processes"


def memory_bomb():
    """At most 1 GiB."""
    taken = []
    for _ in range(64):
        taken.append(bytearray(16 << 20))
        if len(taken) == 8:
            print("  128 MiB are taken, and more is asked for", flush=True)
    return f"{len(taken) * 16} MiB"


PTRACE_TRACEME, CLONE_NEWUSER = 0, 0x10000000

print("hostile: tries to get out", flush=True)
attempt("read /etc/shadow", lambda: readable("/etc/shadow"))
attempt("read secrets of a home folder", secrets_of_the_home)
attempt("find tokens in the environment", tokens)
attempt("see the processes of others", processes_of_others)
attempt("open /etc/passwd for writing", lambda: os.close(os.open("/etc/passwd", os.O_WRONLY)))
attempt("open a disk", lambda: os.close(os.open("/dev/sda", os.O_RDONLY)))
attempt("talk to the container runtime", lambda: socket.socket(socket.AF_UNIX).connect("/var/run/docker.sock"))
attempt("connect to 198.51.100.7:443", connect_out)
attempt("ptrace", lambda: call("ptrace", PTRACE_TRACEME, 0, 0, 0))
attempt("a new user namespace", lambda: call("unshare", CLONE_NEWUSER))
attempt("200 processes", fork_bomb)
print(f"hostile: {succeeded} succeeded; now memory", flush=True)
attempt("1 GiB of memory", memory_bomb)
print(f"hostile: {succeeded} succeeded", flush=True)
sys.exit(66 if succeeded else 0)
