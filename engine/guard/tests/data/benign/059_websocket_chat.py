import asyncio
import json
import logging
from collections import defaultdict

import websockets

logging.basicConfig(level=logging.INFO)
rooms = defaultdict(set)


async def broadcast(room, message, sender=None):
    dead = []
    for ws in list(rooms[room]):
        if ws is sender:
            continue
        try:
            await ws.send(json.dumps(message))
        except websockets.ConnectionClosed:
            dead.append(ws)
    for ws in dead:
        rooms[room].discard(ws)


async def handler(ws):
    room = nick = None
    try:
        hello = json.loads(await ws.recv())
        room, nick = hello["room"], hello["nick"][:20]
        rooms[room].add(ws)
        await broadcast(room, {"type": "join", "nick": nick})
        async for raw in ws:
            try:
                text = str(json.loads(raw)["text"])[:500]
            except (ValueError, KeyError):
                await ws.send(json.dumps({"type": "error", "text": "bad message"}))
                continue
            await broadcast(room, {"type": "message", "nick": nick, "text": text}, sender=ws)
    except (websockets.ConnectionClosed, KeyError, ValueError):
        pass
    finally:
        if room:
            rooms[room].discard(ws)
            if not rooms[room]:
                del rooms[room]
            else:
                await broadcast(room, {"type": "leave", "nick": nick})


async def main():
    async with websockets.serve(handler, "0.0.0.0", 8765):
        logging.info("chat server on :8765")
        await asyncio.Future()


if __name__ == "__main__":
    asyncio.run(main())
