"""Broken link checker for a documentation site."""
import argparse
import asyncio
from html.parser import HTMLParser
from urllib.parse import urldefrag, urljoin, urlparse

import aiohttp


class LinkParser(HTMLParser):
    def __init__(self):
        super().__init__()
        self.links = []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        for key in ("href", "src"):
            if attrs.get(key):
                self.links.append(attrs[key])


class Checker:
    def __init__(self, start, workers=8):
        self.start = start
        self.host = urlparse(start).netloc
        self.queue = asyncio.Queue()
        self.seen = set()
        self.broken = []
        self.workers = workers

    def enqueue(self, url, parent):
        url = urldefrag(url)[0]
        if url.startswith(("http://", "https://")) and url not in self.seen:
            self.seen.add(url)
            self.queue.put_nowait((url, parent))

    async def worker(self, session):
        while True:
            url, parent = await self.queue.get()
            try:
                async with session.get(url, allow_redirects=True) as resp:
                    if resp.status >= 400:
                        self.broken.append((url, parent, resp.status))
                    elif urlparse(url).netloc == self.host and "html" in resp.headers.get("Content-Type", ""):
                        parser = LinkParser()
                        parser.feed(await resp.text())
                        for link in parser.links:
                            self.enqueue(urljoin(url, link), url)
            except (aiohttp.ClientError, asyncio.TimeoutError) as exc:
                self.broken.append((url, parent, type(exc).__name__))
            finally:
                self.queue.task_done()

    async def run(self):
        self.enqueue(self.start, None)
        timeout = aiohttp.ClientTimeout(total=20)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            tasks = [asyncio.create_task(self.worker(session)) for _ in range(self.workers)]
            await self.queue.join()
            for t in tasks:
                t.cancel()
        return self.broken


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("url")
    args = ap.parse_args()
    checker = Checker(args.url)
    for url, parent, why in asyncio.run(checker.run()):
        print(f"{why}: {url} (from {parent})")
    print(f"{len(checker.seen)} links checked, {len(checker.broken)} broken")
