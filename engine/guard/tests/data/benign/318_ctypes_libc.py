import ctypes
import ctypes.util
import sys


class Tm(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in (
        "tm_sec", "tm_min", "tm_hour", "tm_mday", "tm_mon", "tm_year", "tm_wday", "tm_yday", "tm_isdst"
    )] + [("tm_gmtoff", ctypes.c_long), ("tm_zone", ctypes.c_char_p)]


def load_libc():
    name = ctypes.util.find_library("c")
    if name is None:
        sys.exit("libc not found")
    return ctypes.CDLL(name, use_errno=True)


def sort_ints(libc, values):
    array = (ctypes.c_int * len(values))(*values)
    COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
    compare = COMPARE(lambda a, b: a[0] - b[0])
    libc.qsort(array, len(array), ctypes.sizeof(ctypes.c_int), compare)
    return list(array)


def main():
    libc = load_libc()
    libc.strlen.argtypes = [ctypes.c_char_p]
    libc.strlen.restype = ctypes.c_size_t
    print("strlen:", libc.strlen(b"hello world"))
    print("qsort:", sort_ints(libc, [5, 3, 9, -1, 0]))

    now = ctypes.c_long()
    libc.time(ctypes.byref(now))
    tm = Tm()
    libc.localtime_r(ctypes.byref(now), ctypes.byref(tm))
    print(f"localtime: {tm.tm_year + 1900}-{tm.tm_mon + 1:02d}-{tm.tm_mday:02d} {tm.tm_zone.decode()}")

    if libc.access(b"/does/not/exist", 0) == -1:
        print("errno:", ctypes.get_errno())


if __name__ == "__main__":
    main()
