import html
import json
import os
import re
import time
from pathlib import Path

import feedparser
import requests

FEEDS = ["https://blog.python.example.org/feed.xml", "https://news.example.com/rss"]
WEBHOOK = os.environ["DISCORD_WEBHOOK"]
SEEN = Path("seen.json")


def strip(text, limit=300):
    text = html.unescape(re.sub(r"<[^>]+>", "", text or "")).strip()
    return text if len(text) <= limit else text[: limit - 1] + "…"


def post(feed_title, entry):
    embed = {
        "title": entry.title[:250],
        "url": entry.link,
        "description": strip(entry.get("summary")),
        "footer": {"text": feed_title},
    }
    while True:
        r = requests.post(WEBHOOK, json={"embeds": [embed]}, timeout=10)
        if r.status_code == 429:
            time.sleep(float(r.json()["retry_after"]))
            continue
        r.raise_for_status()
        return


def main():
    seen = set(json.loads(SEEN.read_text())) if SEEN.exists() else set()
    first_run = not seen
    for url in FEEDS:
        feed = feedparser.parse(url)
        if feed.bozo and not feed.entries:
            print(f"{url}: {feed.bozo_exception}")
            continue
        for entry in reversed(feed.entries):
            key = entry.get("id", entry.link)
            if key in seen:
                continue
            if not first_run:
                post(feed.feed.get("title", url), entry)
            seen.add(key)
    SEEN.write_text(json.dumps(sorted(seen)))


if __name__ == "__main__":
    main()
