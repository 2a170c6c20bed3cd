"""Uptime checker: polls URLs and reports state changes to Slack."""
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import requests

STATE = Path("/var/tmp/uptime_state.json")
SERVICES = {
    "website": "https://www.example.com/health",
    "api": "https://api.example.com/healthz",
    "docs": "https://docs.example.com/",
}
WEBHOOK = os.environ.get("SLACK_WEBHOOK_URL", "")


def check(item):
    name, url = item
    try:
        r = requests.get(url, timeout=10)
        return name, r.status_code < 400, f"HTTP {r.status_code} in {r.elapsed.total_seconds():.2f}s"
    except requests.RequestException as e:
        return name, False, type(e).__name__


def notify(text):
    print(text)
    if WEBHOOK:
        try:
            requests.post(WEBHOOK, json={"text": text}, timeout=10)
        except requests.RequestException as e:
            print("slack failed:", e)


def load():
    try:
        return json.loads(STATE.read_text())
    except (FileNotFoundError, ValueError):
        return {}


def run_once(state):
    with ThreadPoolExecutor(8) as pool:
        for name, ok, detail in pool.map(check, SERVICES.items()):
            if state.get(name, True) != ok:
                icon = ":large_green_circle:" if ok else ":red_circle:"
                notify(f"{icon} {name} is {'back up' if ok else 'DOWN'} ({detail})")
            state[name] = ok
    STATE.write_text(json.dumps(state))


if __name__ == "__main__":
    state = load()
    while True:
        run_once(state)
        time.sleep(60)
