import random
import sys
import timeit


def quicksort(a):
    if len(a) < 2:
        return a
    p = a[len(a) // 2]
    return quicksort([x for x in a if x < p]) + [x for x in a if x == p] + quicksort([x for x in a if x > p])


def mergesort(a):
    if len(a) < 2:
        return a
    mid = len(a) // 2
    left, right = mergesort(a[:mid]), mergesort(a[mid:])
    out, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        if left[i] <= right[j]:
            out.append(left[i])
            i += 1
        else:
            out.append(right[j])
            j += 1
    return out + left[i:] + right[j:]


def heapsort(a):
    a = list(a)
    n = len(a)

    def sift(start, end):
        root = start
        while (child := 2 * root + 1) < end:
            if child + 1 < end and a[child] < a[child + 1]:
                child += 1
            if a[root] >= a[child]:
                return
            a[root], a[child] = a[child], a[root]
            root = child

    for start in range(n // 2 - 1, -1, -1):
        sift(start, n)
    for end in range(n - 1, 0, -1):
        a[0], a[end] = a[end], a[0]
        sift(0, end)
    return a


if __name__ == "__main__":
    sys.setrecursionlimit(10000)
    funcs = [quicksort, mergesort, heapsort, sorted]
    print("n".rjust(8), *(f.__name__.rjust(10) for f in funcs))
    for n in (100, 1000, 10000):
        data = [random.randint(0, n) for _ in range(n)]
        for f in funcs:
            assert f(data) == sorted(data)
        times = [min(timeit.repeat(lambda: f(data), number=5, repeat=3)) / 5 for f in funcs]
        print(str(n).rjust(8), *(f"{t * 1000:8.2f}ms" for t in times))
