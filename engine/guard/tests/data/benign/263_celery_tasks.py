import io
import os
import smtplib
from email.message import EmailMessage

import boto3
from celery import Celery
from celery.schedules import crontab
from celery.utils.log import get_task_logger
from PIL import Image

app = Celery("tasks", broker=os.environ.get("BROKER_URL", "redis://localhost:6379/1"))
app.conf.update(
    task_serializer="json",
    accept_content=["json"],
    task_acks_late=True,
    beat_schedule={"cleanup": {"task": "tasks.cleanup_uploads", "schedule": crontab(hour=4, minute=0)}},
)
log = get_task_logger(__name__)
BUCKET = os.environ.get("MEDIA_BUCKET", "media")


@app.task(bind=True, autoretry_for=(ConnectionError,), retry_backoff=True, max_retries=5)
def thumbnail(self, key, size=320):
    s3 = boto3.client("s3")
    data = s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    im = Image.open(io.BytesIO(data)).convert("RGB")
    im.thumbnail((size, size))
    out = io.BytesIO()
    im.save(out, "JPEG", quality=80)
    target = f"thumbs/{size}/{key}.jpg"
    s3.put_object(Bucket=BUCKET, Key=target, Body=out.getvalue(), ContentType="image/jpeg")
    return target


@app.task(bind=True, max_retries=3)
def welcome_mail(self, address, name):
    msg = EmailMessage()
    msg["Subject"] = "Welcome!"
    msg["From"] = os.environ["MAIL_FROM"]
    msg["To"] = address
    msg.set_content(f"Hello {name},\n\nthanks for signing up.")
    try:
        with smtplib.SMTP(os.environ["SMTP_HOST"], 25, timeout=10) as s:
            s.send_message(msg)
    except (smtplib.SMTPException, OSError) as exc:
        raise self.retry(exc=exc, countdown=60 * 2**self.request.retries)


@app.task
def cleanup_uploads():
    s3 = boto3.client("s3")
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix="tmp/")
    count = 0
    for page in pages:
        keys = [{"Key": o["Key"]} for o in page.get("Contents", [])]
        if keys:
            s3.delete_objects(Bucket=BUCKET, Delete={"Objects": keys})
            count += len(keys)
    log.info("removed %d temporary uploads", count)
