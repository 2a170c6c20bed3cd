import os
import threading
import time

import requests

TOKEN = os.environ["TELEGRAM_BOT_TOKEN"]
API = f"https://api.telegram.org/bot{TOKEN}"


def call(method, **params):
    r = requests.post(f"{API}/{method}", json=params, timeout=65)
    data = r.json()
    if not data.get("ok"):
        raise RuntimeError(data.get("description", "unknown error"))
    return data["result"]


def send(chat_id, text):
    call("sendMessage", chat_id=chat_id, text=text)


def cmd_start(chat_id, args):
    send(chat_id, "Hi! Use /remind MINUTES TEXT and I'll remind you.")


def cmd_remind(chat_id, args):
    try:
        minutes, text = args.split(None, 1)
        delay = float(minutes) * 60
    except ValueError:
        send(chat_id, "Usage: /remind MINUTES TEXT")
        return
    timer = threading.Timer(delay, send, (chat_id, f"Reminder: {text}"))
    timer.daemon = True
    timer.start()
    send(chat_id, f"OK, in {minutes} minutes.")


COMMANDS = {"/start": cmd_start, "/help": cmd_start, "/remind": cmd_remind}


def main():
    offset = None
    while True:
        try:
            updates = call("getUpdates", timeout=60, offset=offset)
        except (requests.RequestException, RuntimeError) as e:
            print("poll error:", e)
            time.sleep(5)
            continue
        for u in updates:
            offset = u["update_id"] + 1
            message = u.get("message", {})
            text = message.get("text", "")
            name, _, args = text.partition(" ")
            handler = COMMANDS.get(name.split("@")[0])
            if handler:
                handler(message["chat"]["id"], args)


if __name__ == "__main__":
    main()
