import argparse
import sys

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError


def main():
    ap = argparse.ArgumentParser(description="Create presigned S3 URLs")
    ap.add_argument("bucket")
    ap.add_argument("key")
    ap.add_argument("--method", choices=["get", "put"], default="get")
    ap.add_argument("--expires", type=int, default=900)
    ap.add_argument("--region", default="eu-central-1")
    ap.add_argument("--profile")
    args = ap.parse_args()

    session = boto3.Session(profile_name=args.profile, region_name=args.region)
    s3 = session.client("s3", config=Config(signature_version="s3v4"))
    try:
        url = s3.generate_presigned_url(
            f"{args.method}_object", Params={"Bucket": args.bucket, "Key": args.key}, ExpiresIn=args.expires
        )
    except (BotoCoreError, ClientError) as e:
        sys.exit(str(e))

    print(url)
    if args.method == "put":
        print(f"\ncurl -X PUT --upload-file FILE '{url}'", file=sys.stderr)


if __name__ == "__main__":
    main()
