import argparse
import csv
import os
import smtplib
import time
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText

from jinja2 import Environment, FileSystemLoader, StrictUndefined

env = Environment(loader=FileSystemLoader("templates"), autoescape=True, undefined=StrictUndefined)


def build(template, row, subject, sender):
    msg = MIMEMultipart("alternative")
    msg["Subject"] = env.from_string(subject).render(**row)
    msg["From"] = sender
    msg["To"] = row["email"]
    msg["List-Unsubscribe"] = f"<https://example.org/unsubscribe?id={row['id']}>"
    msg.attach(MIMEText(env.get_template(f"{template}.txt").render(**row), "plain"))
    msg.attach(MIMEText(env.get_template(f"{template}.html").render(**row), "html"))
    return msg


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("recipients")
    ap.add_argument("template")
    ap.add_argument("--subject", default="News for {{ name }}")
    ap.add_argument("--send", action="store_true")
    ap.add_argument("--delay", type=float, default=1.0)
    args = ap.parse_args()

    sender = os.environ.get("MAIL_FROM", "news@example.org")
    rows = list(csv.DictReader(open(args.recipients, newline="")))
    if not args.send:
        print(build(args.template, rows[0], args.subject, sender).as_string())
        print(f"--- preview only, {len(rows)} recipients")
        return
    with smtplib.SMTP_SSL(os.environ["SMTP_HOST"], 465) as smtp:
        smtp.login(os.environ["SMTP_USER"], os.environ["SMTP_PASSWORD"])
        for i, row in enumerate(rows, 1):
            try:
                smtp.send_message(build(args.template, row, args.subject, sender))
                print(f"{i}/{len(rows)} {row['email']}")
            except smtplib.SMTPRecipientsRefused as e:
                print(f"refused: {e}")
            time.sleep(args.delay)


if __name__ == "__main__":
    main()
