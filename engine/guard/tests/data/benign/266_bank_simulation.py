import random
import statistics

import simpy

TELLERS = 3
ARRIVAL_MEAN = 2.0
SERVICE_MEAN = 5.0
HOURS = 8


def customer(env, bank, waits, patience):
    arrived = env.now
    with bank.request() as req:
        result = yield req | env.timeout(patience)
        if req not in result:
            waits["left"] += 1
            return
        waits["times"].append(env.now - arrived)
        yield env.timeout(random.expovariate(1 / SERVICE_MEAN))
    waits["served"] += 1


def arrivals(env, bank, waits):
    while True:
        yield env.timeout(random.expovariate(1 / ARRIVAL_MEAN))
        env.process(customer(env, bank, waits, patience=random.uniform(5, 30)))


def run(tellers, seed):
    random.seed(seed)
    env = simpy.Environment()
    bank = simpy.Resource(env, capacity=tellers)
    waits = {"times": [], "left": 0, "served": 0}
    env.process(arrivals(env, bank, waits))
    env.run(until=HOURS * 60)
    return waits


if __name__ == "__main__":
    print("tellers  served  left  mean wait  95%")
    for n in range(1, TELLERS + 3):
        runs = [run(n, seed) for seed in range(10)]
        times = sorted(t for r in runs for t in r["times"])
        print(
            f"{n:>7} {statistics.mean(r['served'] for r in runs):>7.0f} {statistics.mean(r['left'] for r in runs):>5.0f}"
            f" {statistics.mean(times):>9.1f} {times[int(len(times) * 0.95)]:>6.1f}"
        )
