import hashlib
import json
import time
from dataclasses import asdict, dataclass, field


@dataclass
class Block:
    index: int
    previous: str
    transactions: list
    timestamp: float = field(default_factory=time.time)
    nonce: int = 0

    def digest(self):
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


class Blockchain:
    def __init__(self, difficulty=4, reward=10):
        self.difficulty, self.reward = difficulty, reward
        self.pending = []
        self.chain = [Block(0, "0" * 64, [], timestamp=0)]

    def balance(self, who):
        total = 0
        for block in self.chain:
            for tx in block.transactions:
                total += tx["amount"] * ((tx["to"] == who) - (tx["from"] == who))
        return total

    def send(self, sender, to, amount):
        waiting = sum(t["amount"] for t in self.pending if t["from"] == sender)
        if amount <= 0 or self.balance(sender) - waiting < amount:
            raise ValueError(f"{sender} cannot send {amount}")
        self.pending.append({"from": sender, "to": to, "amount": amount})

    def mine(self, miner):
        txs = self.pending + [{"from": None, "to": miner, "amount": self.reward}]
        block = Block(len(self.chain), self.chain[-1].digest(), txs)
        while not block.digest().startswith("0" * self.difficulty):
            block.nonce += 1
        self.chain.append(block)
        self.pending = []
        return block

    def valid(self):
        return all(
            b.previous == a.digest() and b.digest().startswith("0" * self.difficulty)
            for a, b in zip(self.chain, self.chain[1:])
        )


if __name__ == "__main__":
    bc = Blockchain()
    bc.mine("alice")
    bc.send("alice", "bob", 4)
    b = bc.mine("carol")
    print(f"block {b.index} nonce {b.nonce} {b.digest()[:16]}")
    print({n: bc.balance(n) for n in ("alice", "bob", "carol")}, bc.valid())
    bc.chain[1].transactions[0]["amount"] = 1000
    print("after tampering:", bc.valid())
