#!/usr/bin/env python3
"""Run a command and report the result to Slack through an incoming webhook."""
import os
import subprocess
import sys
import time

import requests

WEBHOOK_URL = os.environ.get("SLACK_WEBHOOK_URL")


def post(text, color="good"):
    payload = {"attachments": [{"color": color, "text": text, "mrkdwn_in": ["text"]}]}
    resp = requests.post(WEBHOOK_URL, json=payload, timeout=10)
    resp.raise_for_status()


def main():
    if not WEBHOOK_URL:
        sys.exit("Please set SLACK_WEBHOOK_URL")
    if len(sys.argv) < 2:
        sys.exit(f"usage: {sys.argv[0]} COMMAND [ARGS...]")

    started = time.monotonic()
    result = subprocess.run(sys.argv[1:], capture_output=True, text=True)
    elapsed = time.monotonic() - started
    cmd = " ".join(sys.argv[1:])

    if result.returncode == 0:
        post(f":white_check_mark: `{cmd}` finished in {elapsed:.1f}s")
    else:
        tail = result.stderr[-1500:]
        post(f":x: `{cmd}` failed with code {result.returncode}\n```{tail}```", color="danger")
    sys.stdout.write(result.stdout)
    sys.stderr.write(result.stderr)
    return result.returncode


if __name__ == "__main__":
    sys.exit(main())
