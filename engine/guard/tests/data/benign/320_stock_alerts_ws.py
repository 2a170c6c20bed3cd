import asyncio
import json
import random
import sys
from collections import deque

import websockets

URL = "wss://stream.example.com/ws"


class MovingAverage:
    def __init__(self, n):
        self.values = deque(maxlen=n)

    def add(self, v):
        self.values.append(v)
        return sum(self.values) / len(self.values) if len(self.values) == self.values.maxlen else None


class Crossover:
    def __init__(self, symbol, fast=10, slow=50):
        self.symbol = symbol
        self.fast, self.slow = MovingAverage(fast), MovingAverage(slow)
        self.above = None

    def update(self, price):
        f, s = self.fast.add(price), self.slow.add(price)
        if f is None or s is None:
            return None
        above = f > s
        crossed = self.above is not None and above != self.above
        self.above = above
        return ("UP" if above else "DOWN") if crossed else None


async def consume(symbols):
    trackers = {s: Crossover(s) for s in symbols}
    delay = 1
    while True:
        try:
            async with websockets.connect(URL, ping_interval=20) as ws:
                delay = 1
                await ws.send(json.dumps({"op": "subscribe", "symbols": symbols}))
                async for raw in ws:
                    msg = json.loads(raw)
                    tracker = trackers.get(msg.get("symbol"))
                    if tracker is None or "price" not in msg:
                        continue
                    signal = tracker.update(float(msg["price"]))
                    if signal:
                        print(f"{tracker.symbol} crossed {signal} at {msg['price']}")
        except (OSError, websockets.WebSocketException, ValueError) as e:
            wait = delay + random.random()
            print(f"{type(e).__name__}: {e}; reconnect in {wait:.1f}s", file=sys.stderr)
            await asyncio.sleep(wait)
            delay = min(delay * 2, 60)


if __name__ == "__main__":
    try:
        asyncio.run(consume(sys.argv[1:] or ["ABC", "XYZ"]))
    except KeyboardInterrupt:
        pass
