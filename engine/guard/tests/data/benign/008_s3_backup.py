#!/usr/bin/env python3
"""Upload a directory tree to S3, skipping unchanged files (compared by MD5/ETag)."""
import argparse
import hashlib
import mimetypes
from pathlib import Path

import boto3
from botocore.exceptions import ClientError


def md5(path: Path) -> str:
    h = hashlib.md5()
    with path.open("rb") as f:
        for block in iter(lambda: f.read(65536), b""):
            h.update(block)
    return h.hexdigest()


def remote_etag(s3, bucket, key):
    try:
        return s3.head_object(Bucket=bucket, Key=key)["ETag"].strip('"')
    except ClientError as e:
        if e.response["Error"]["Code"] in ("404", "NoSuchKey"):
            return None
        raise


def sync(root: Path, bucket: str, prefix: str, dry_run: bool):
    s3 = boto3.client("s3")
    uploaded = skipped = 0
    for path in sorted(root.rglob("*")):
        if not path.is_file():
            continue
        key = f"{prefix.rstrip('/')}/{path.relative_to(root).as_posix()}".lstrip("/")
        if remote_etag(s3, bucket, key) == md5(path):
            skipped += 1
            continue
        print(f"upload {path} -> s3://{bucket}/{key}")
        if not dry_run:
            ctype = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
            s3.upload_file(str(path), bucket, key, ExtraArgs={"ContentType": ctype})
        uploaded += 1
    print(f"{uploaded} uploaded, {skipped} unchanged")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("root", type=Path)
    p.add_argument("bucket")
    p.add_argument("--prefix", default="")
    p.add_argument("--dry-run", action="store_true")
    a = p.parse_args()
    sync(a.root, a.bucket, a.prefix, a.dry_run)
