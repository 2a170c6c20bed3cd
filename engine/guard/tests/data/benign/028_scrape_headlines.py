import json
import time
from urllib.parse import urljoin

import requests
from bs4 import BeautifulSoup

START_URL = "https://blog.example.org/"
HEADERS = {"User-Agent": "headline-collector/0.1 (contact: admin@example.org)"}
MAX_PAGES = 10


def parse_page(html, base):
    soup = BeautifulSoup(html, "html.parser")
    for article in soup.select("article"):
        link = article.select_one("h2 a")
        if not link:
            continue
        date = article.select_one("time")
        yield {
            "title": link.get_text(strip=True),
            "url": urljoin(base, link["href"]),
            "date": date.get("datetime") if date else None,
        }
    nxt = soup.select_one("a[rel=next]")
    parse_page.next_url = urljoin(base, nxt["href"]) if nxt else None


def main():
    articles = []
    url = START_URL
    session = requests.Session()
    session.headers.update(HEADERS)
    for page in range(MAX_PAGES):
        print(f"page {page + 1}: {url}")
        resp = session.get(url, timeout=15)
        resp.raise_for_status()
        articles.extend(parse_page(resp.text, url))
        url = parse_page.next_url
        if not url:
            break
        time.sleep(1)  # be polite

    with open("headlines.json", "w", encoding="utf-8") as f:
        json.dump(articles, f, ensure_ascii=False, indent=2)
    print(f"{len(articles)} articles saved")


if __name__ == "__main__":
    main()
