import asyncio
import sys
from pathlib import Path
from urllib.parse import urlparse

import aiohttp

LIMIT = 5
OUT = Path("downloads")


async def fetch(session, sem, url):
    name = Path(urlparse(url).path).name or "index.html"
    target = OUT / name
    async with sem:
        for attempt in range(3):
            try:
                async with session.get(url) as resp:
                    resp.raise_for_status()
                    with target.open("wb") as f:
                        async for chunk in resp.content.iter_chunked(1 << 16):
                            f.write(chunk)
                print(f"saved {target}")
                return True
            except (aiohttp.ClientError, asyncio.TimeoutError) as exc:
                print(f"{url}: attempt {attempt + 1} failed: {exc}")
                await asyncio.sleep(2**attempt)
    return False


async def main(url_file):
    OUT.mkdir(exist_ok=True)
    urls = [line.strip() for line in open(url_file) if line.strip() and not line.startswith("#")]
    sem = asyncio.Semaphore(LIMIT)
    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        results = await asyncio.gather(*(fetch(session, sem, u) for u in urls))
    print(f"{sum(results)}/{len(urls)} downloaded")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
