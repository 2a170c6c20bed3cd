from __future__ import annotations

import random
from dataclasses import dataclass, field


@dataclass
class Passenger:
    start: int
    target: int
    arrived: int
    picked: int | None = None


@dataclass
class Elevator:
    floors: int
    capacity: int = 8
    floor: int = 0
    direction: int = 1
    inside: list[Passenger] = field(default_factory=list)

    def wanted(self, waiting):
        return {p.target for p in self.inside} | {f for f, queue in waiting.items() if queue}

    def step(self, waiting, now):
        done = [p for p in self.inside if p.target == self.floor]
        self.inside = [p for p in self.inside if p.target != self.floor]
        while waiting[self.floor] and len(self.inside) < self.capacity:
            p = waiting[self.floor].pop(0)
            p.picked = now
            self.inside.append(p)
        goals = self.wanted(waiting)
        if goals:
            ahead = [g for g in goals if (g - self.floor) * self.direction > 0]
            if not ahead:
                self.direction *= -1
            if any(g != self.floor for g in goals):
                self.floor = max(0, min(self.floors - 1, self.floor + self.direction))
        return done


def simulate(floors=12, ticks=2000, rate=0.15, seed=1):
    rng = random.Random(seed)
    elevator = Elevator(floors)
    waiting = {f: [] for f in range(floors)}
    waits, rides = [], []
    for now in range(ticks):
        if rng.random() < rate:
            a, b = rng.sample(range(floors), 2)
            waiting[a].append(Passenger(a, b, now))
        for p in elevator.step(waiting, now):
            waits.append(p.picked - p.arrived)
            rides.append(now - p.picked)
    return waits, rides


if __name__ == "__main__":
    for rate in (0.05, 0.1, 0.2, 0.3):
        waits, rides = simulate(rate=rate)
        print(f"rate {rate}: {len(waits)} passengers, wait {sum(waits) / len(waits):.1f}, ride {sum(rides) / len(rides):.1f}")
