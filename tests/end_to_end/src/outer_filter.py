"""Runs a command under a system call filter, as a container's runtime does: FILTER COMMAND..."""

import ctypes
import os
import struct
import sys

LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
EPERM, EACCES, ENOSYS = 1, 13, 38
NUMBER, ARGUMENT_0, ARGUMENT_1 = 0, 16, 24
NEW_USER, NEW_LISTENER = 0x10000000, 8
NO_NEW_PRIVS = 38
CLONE3, LANDLOCK = 435, 444  # the same everywhere
SECCOMP, UNSHARE, CLONE = {"x86_64": (317, 272, 56), "aarch64": (277, 97, 220)}[os.uname().machine]


def step(code, value, yes=0, no=0):
    return struct.pack("HBBI", code, yes, no, value)


def call(number, error, bits=None, argument=ARGUMENT_0):
    """Refuses a call; with `bits` only where one of them is in this argument."""
    skip = 1 if bits is None else 3
    asks = [] if bits is None else [step(LOAD, argument), step(ANY_BIT, bits, 0, 1)]
    return [step(LOAD, NUMBER), step(EQUAL, number, 0, skip), *asks, step(RETURN, ERRNO | error)]


def no_namespaces(error):
    return call(CLONE3, ENOSYS) + call(CLONE, error, NEW_USER) + call(UNSHARE, error, 0x7E020000)


FILTERS = {
    "nothing": [],
    "no-listener": call(SECCOMP, EPERM, NEW_LISTENER, ARGUMENT_1),
    "own-listener": [],
    "no-seccomp": call(SECCOMP, EPERM),
    "no-landlock": call(LANDLOCK, ENOSYS),
    "no-clone3": call(CLONE3, ENOSYS),
    "no-namespaces": no_namespaces(EPERM),
    "no-namespaces-eacces": no_namespaces(EACCES),
}

name, command = sys.argv[1], sys.argv[2:]
libc = ctypes.CDLL(None, use_errno=True)
code = ctypes.create_string_buffer(b"".join([*FILTERS[name], step(RETURN, ALLOW)]))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(code)))
if libc.prctl(NO_NEW_PRIVS, 1, 0, 0, 0):
    sys.exit(os.strerror(ctypes.get_errno()))
answer = libc.syscall(SECCOMP, 1, NEW_LISTENER if name == "own-listener" else 0, program)
if answer < 0:
    sys.exit(os.strerror(ctypes.get_errno()))
if name == "own-listener":
    os.set_inheritable(answer, True)  # without a listener its calls would fail
os.execvp(command[0], command)
