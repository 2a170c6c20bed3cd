#!/usr/bin/env python3
"""Terminal chat for an OpenAI compatible endpoint."""
import json
import os
import sys

import requests

BASE = os.environ.get("LLM_BASE_URL", "http://localhost:8080/v1")
KEY = os.environ.get("LLM_API_KEY", "none")
MODEL = os.environ.get("LLM_MODEL", "local-model")
HISTORY = os.path.expanduser("~/.chat_history.json")


def stream(messages):
    with requests.post(
        f"{BASE}/chat/completions",
        headers={"Authorization": f"Bearer {KEY}"},
        json={"model": MODEL, "messages": messages, "stream": True, "temperature": 0.7},
        stream=True,
        timeout=(5, 300),
    ) as r:
        r.raise_for_status()
        for line in r.iter_lines():
            if not line.startswith(b"data: "):
                continue
            data = line[6:]
            if data == b"[DONE]":
                return
            delta = json.loads(data)["choices"][0]["delta"].get("content")
            if delta:
                yield delta


def main():
    messages = [{"role": "system", "content": "You are a helpful assistant."}]
    if "--resume" in sys.argv and os.path.exists(HISTORY):
        messages = json.load(open(HISTORY))
    while True:
        try:
            text = input("\nyou> ").strip()
        except (EOFError, KeyboardInterrupt):
            break
        if text == "/reset":
            messages = messages[:1]
            continue
        if text == "/quit":
            break
        if not text:
            continue
        messages.append({"role": "user", "content": text})
        answer = ""
        try:
            for part in stream(messages):
                print(part, end="", flush=True)
                answer += part
        except requests.RequestException as e:
            print(f"\n[error] {e}")
            messages.pop()
            continue
        print()
        messages.append({"role": "assistant", "content": answer})
    with open(HISTORY, "w") as f:
        json.dump(messages, f)


if __name__ == "__main__":
    main()
