import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Item:
    name: str
    weight: int
    value: int


def make_items(n, rng):
    return [Item(f"item{i}", rng.randint(1, 20), rng.randint(5, 60)) for i in range(n)]


class GA:
    def __init__(self, items, capacity, size=80, mutation=0.02, seed=0):
        self.items, self.capacity, self.mutation = items, capacity, mutation
        self.rng = random.Random(seed)
        self.pop = [[self.rng.random() < 0.3 for _ in items] for _ in range(size)]

    def fitness(self, genes):
        weight = sum(i.weight for i, g in zip(self.items, genes) if g)
        value = sum(i.value for i, g in zip(self.items, genes) if g)
        return value if weight <= self.capacity else -weight

    def select(self):
        return max(self.rng.sample(self.pop, 4), key=self.fitness)

    def crossover(self, a, b):
        cut = self.rng.randrange(1, len(a))
        return a[:cut] + b[cut:]

    def mutate(self, genes):
        return [not g if self.rng.random() < self.mutation else g for g in genes]

    def run(self, generations=150):
        for gen in range(generations):
            elite = sorted(self.pop, key=self.fitness, reverse=True)[:4]
            children = [self.mutate(self.crossover(self.select(), self.select())) for _ in range(len(self.pop) - 4)]
            self.pop = elite + children
            if gen % 25 == 0:
                print(f"generation {gen}: best {self.fitness(elite[0])}")
        return max(self.pop, key=self.fitness)


if __name__ == "__main__":
    rng = random.Random(42)
    items = make_items(40, rng)
    ga = GA(items, capacity=120)
    best = ga.run()
    chosen = [i for i, g in zip(items, best) if g]
    print(f"value {sum(i.value for i in chosen)}, weight {sum(i.weight for i in chosen)}")
    print(", ".join(i.name for i in chosen))
