from __future__ import annotations

import heapq
from dataclasses import dataclass, field


@dataclass
class Node:
    children: dict[str, Node] = field(default_factory=dict)
    count: int = 0


class Autocomplete:
    def __init__(self):
        self.root = Node()

    def add(self, word: str, count: int = 1) -> None:
        node = self.root
        for ch in word.lower():
            node = node.children.setdefault(ch, Node())
        node.count += count

    def _find(self, prefix: str) -> Node | None:
        node = self.root
        for ch in prefix.lower():
            node = node.children.get(ch)
            if node is None:
                return None
        return node

    def __contains__(self, word: str) -> bool:
        node = self._find(word)
        return bool(node and node.count)

    def suggest(self, prefix: str, limit: int = 5) -> list[str]:
        start = self._find(prefix)
        if start is None:
            return []
        found = []
        stack = [(prefix.lower(), start)]
        while stack:
            word, node = stack.pop()
            if node.count:
                found.append((node.count, word))
            stack.extend((word + ch, child) for ch, child in node.children.items())
        return [w for _, w in heapq.nlargest(limit, found)]


if __name__ == "__main__":
    ac = Autocomplete()
    for w in "the then there their theme thesis than that think three".split():
        ac.add(w, len(w))
    print(ac.suggest("the"))
    assert "then" in ac and "th" not in ac
