#!/usr/bin/env python3
"""Save PDF attachments of unread mails into a folder."""
import email
import imaplib
import os
import re
from email.header import decode_header, make_header
from pathlib import Path

HOST = os.environ["IMAP_HOST"]
USER = os.environ["IMAP_USER"]
PASSWORD = os.environ["IMAP_PASSWORD"]
SENDER = os.environ.get("INVOICE_SENDER", "billing@example.com")
TARGET = Path(os.environ.get("INVOICE_DIR", "invoices"))


def safe_name(raw):
    name = str(make_header(decode_header(raw)))
    return re.sub(r"[^\w.\- ]", "_", name)


def main():
    TARGET.mkdir(exist_ok=True)
    box = imaplib.IMAP4_SSL(HOST)
    box.login(USER, PASSWORD)
    try:
        box.select("INBOX")
        _, data = box.search(None, "UNSEEN", "FROM", f'"{SENDER}"')
        for num in data[0].split():
            _, parts = box.fetch(num, "(RFC822)")
            msg = email.message_from_bytes(parts[0][1])
            saved = 0
            for part in msg.walk():
                filename = part.get_filename()
                if not filename or not filename.lower().endswith(".pdf"):
                    continue
                path = TARGET / safe_name(filename)
                n = 1
                while path.exists():
                    path = TARGET / f"{path.stem}_{n}.pdf"
                    n += 1
                path.write_bytes(part.get_payload(decode=True))
                print("saved", path)
                saved += 1
            if saved:
                box.store(num, "+FLAGS", "\\Seen")
    finally:
        box.logout()


if __name__ == "__main__":
    main()
