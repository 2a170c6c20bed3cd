import argparse
import math
import multiprocessing as mp
import random
import time


def count_inside(args):
    n, seed = args
    rng = random.Random(seed)
    inside = 0
    for _ in range(n):
        x, y = rng.random(), rng.random()
        if x * x + y * y <= 1:
            inside += 1
    return inside


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("-n", type=int, default=10_000_000)
    ap.add_argument("-j", "--jobs", type=int, default=mp.cpu_count())
    args = ap.parse_args()

    per_job = args.n // args.jobs
    start = time.perf_counter()
    with mp.Pool(args.jobs) as pool:
        inside = sum(pool.map(count_inside, [(per_job, s) for s in range(args.jobs)]))
    pi = 4 * inside / (per_job * args.jobs)
    print(f"pi ~ {pi:.6f} (error {abs(pi - math.pi):.6f}) in {time.perf_counter() - start:.2f}s")


if __name__ == "__main__":
    main()
