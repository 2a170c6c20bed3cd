import argparse
from datetime import datetime, timedelta, timezone

import boto3


def chunks(seq, n=1000):
    for i in range(0, len(seq), n):
        yield seq[i:i + n]


def old_versions(s3, bucket, prefix, cutoff):
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=prefix):
        for v in page.get("Versions", []):
            if not v["IsLatest"] and v["LastModified"] < cutoff:
                yield {"Key": v["Key"], "VersionId": v["VersionId"]}, v["Size"]
        for m in page.get("DeleteMarkers", []):
            if m["IsLatest"] and m["LastModified"] < cutoff:
                yield {"Key": m["Key"], "VersionId": m["VersionId"]}, 0


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("bucket")
    ap.add_argument("--prefix", default="")
    ap.add_argument("--days", type=int, default=90)
    ap.add_argument("--apply", action="store_true")
    args = ap.parse_args()
    s3 = boto3.client("s3")
    cutoff = datetime.now(timezone.utc) - timedelta(days=args.days)

    found = list(old_versions(s3, args.bucket, args.prefix, cutoff))
    print(f"{len(found)} versions, {sum(s for _, s in found) / 1e9:.2f} GB")
    uploads = [
        u
        for page in s3.get_paginator("list_multipart_uploads").paginate(Bucket=args.bucket)
        for u in page.get("Uploads", [])
        if u["Initiated"] < cutoff
    ]
    print(f"{len(uploads)} unfinished uploads")
    if not args.apply:
        print("use --apply to delete")
        return
    for part in chunks([o for o, _ in found]):
        result = s3.delete_objects(Bucket=args.bucket, Delete={"Objects": part, "Quiet": True})
        for err in result.get("Errors", []):
            print("error", err["Key"], err["Message"])
    for u in uploads:
        s3.abort_multipart_upload(Bucket=args.bucket, Key=u["Key"], UploadId=u["UploadId"])


if __name__ == "__main__":
    main()
