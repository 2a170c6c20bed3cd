"""Dijkstra's algorithm on a weighted directed graph."""
import heapq
from collections import defaultdict
from typing import Hashable, Iterable


class Graph:
    def __init__(self, edges: Iterable[tuple[Hashable, Hashable, float]] = ()):
        self.adj = defaultdict(list)
        for u, v, w in edges:
            self.add_edge(u, v, w)

    def add_edge(self, u, v, weight):
        if weight < 0:
            raise ValueError("negative weights are not supported")
        self.adj[u].append((v, weight))

    def shortest_path(self, source, target):
        dist = {source: 0}
        prev = {}
        queue = [(0, source)]
        visited = set()
        while queue:
            d, node = heapq.heappop(queue)
            if node in visited:
                continue
            visited.add(node)
            if node == target:
                break
            for neighbour, weight in self.adj[node]:
                nd = d + weight
                if nd < dist.get(neighbour, float("inf")):
                    dist[neighbour] = nd
                    prev[neighbour] = node
                    heapq.heappush(queue, (nd, neighbour))
        if target not in dist:
            return float("inf"), []
        path = [target]
        while path[-1] != source:
            path.append(prev[path[-1]])
        return dist[target], path[::-1]


if __name__ == "__main__":
    g = Graph([("A", "B", 4), ("A", "C", 2), ("C", "B", 1), ("B", "D", 5), ("C", "D", 8)])
    cost, path = g.shortest_path("A", "D")
    print(f"cost={cost} path={' -> '.join(path)}")
    assert cost == 8
