import os
import smtplib
import ssl
import sys
from email.message import EmailMessage
from pathlib import Path

SMTP_HOST = os.environ.get("SMTP_HOST", "smtp.example.com")
SMTP_PORT = int(os.environ.get("SMTP_PORT", 587))
SMTP_USER = os.environ["SMTP_USER"]
SMTP_PASSWORD = os.environ["SMTP_PASSWORD"]


def build_message(to, subject, html, attachment: Path | None = None):
    msg = EmailMessage()
    msg["From"] = SMTP_USER
    msg["To"] = ", ".join(to)
    msg["Subject"] = subject
    msg.set_content("Your mail client does not support HTML.")
    msg.add_alternative(html, subtype="html")
    if attachment:
        msg.add_attachment(
            attachment.read_bytes(), maintype="text", subtype="csv", filename=attachment.name
        )
    return msg


def send(msg):
    context = ssl.create_default_context()
    with smtplib.SMTP(SMTP_HOST, SMTP_PORT, timeout=30) as server:
        server.starttls(context=context)
        server.login(SMTP_USER, SMTP_PASSWORD)
        server.send_message(msg)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: send_report_mail.py report.csv recipient [recipient ...]")
    report = Path(sys.argv[1])
    html = f"<h2>Weekly report</h2><p>Please find <b>{report.name}</b> attached.</p>"
    send(build_message(sys.argv[2:], "Weekly report", html, report))
    print("sent")
