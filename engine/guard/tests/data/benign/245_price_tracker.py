import csv
import os
import re
import smtplib
import sys
from datetime import date
from email.message import EmailMessage

import requests
from bs4 import BeautifulSoup

PRODUCTS = [
    ("Headphones", "https://shop.example.com/p/1234", ".price-now", 120.0),
    ("Coffee grinder", "https://store.example.net/item/98", "[itemprop=price]", 80.0),
]
HISTORY = "prices.csv"
HEADERS = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64) price-tracker/1.0", "Accept-Language": "en"}


def parse_price(text):
    m = re.search(r"(\d{1,3}(?:[.,\s]\d{3})*|\d+)(?:[.,](\d{2}))?", text)
    if not m:
        raise ValueError(f"no price in {text!r}")
    whole = re.sub(r"\D", "", m.group(1))
    return float(f"{whole}.{m.group(2) or '00'}")


def fetch(url, selector):
    r = requests.get(url, headers=HEADERS, timeout=20)
    r.raise_for_status()
    el = BeautifulSoup(r.text, "html.parser").select_one(selector)
    if el is None:
        raise LookupError(f"{selector} not found")
    return parse_price(el.get("content") or el.get_text())


def send_mail(lines):
    msg = EmailMessage()
    msg["Subject"] = f"{len(lines)} price alert(s)"
    msg["From"] = msg["To"] = os.environ["MAIL_USER"]
    msg.set_content("\n".join(lines))
    with smtplib.SMTP_SSL(os.environ.get("MAIL_HOST", "smtp.example.com")) as s:
        s.login(os.environ["MAIL_USER"], os.environ["MAIL_PASSWORD"])
        s.send_message(msg)


def main():
    alerts = []
    with open(HISTORY, "a", newline="") as f:
        w = csv.writer(f)
        for name, url, selector, limit in PRODUCTS:
            try:
                price = fetch(url, selector)
            except Exception as e:
                print(f"{name}: {e}", file=sys.stderr)
                continue
            w.writerow([date.today().isoformat(), name, price])
            print(f"{name}: {price:.2f}")
            if price <= limit:
                alerts.append(f"{name} costs {price:.2f} (limit {limit:.2f})\n{url}\n")
    if alerts:
        send_mail(alerts)


if __name__ == "__main__":
    main()
