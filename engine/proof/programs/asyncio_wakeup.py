"""Must work: asyncio wakes itself through a socket pair, and awaits a child."""

import asyncio
import threading


async def main() -> None:
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    threading.Timer(0.05, lambda: loop.call_soon_threadsafe(done.set_result, 1)).start()
    assert await asyncio.wait_for(done, 5) == 1
    child = await asyncio.create_subprocess_exec("/bin/true")
    assert await asyncio.wait_for(child.wait(), 5) == 0


asyncio.run(main())
