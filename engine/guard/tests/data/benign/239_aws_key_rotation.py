"""Rotate the access key of an IAM user."""
import argparse
import json
from datetime import datetime, timezone

import boto3


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("user")
    ap.add_argument("--secret", required=True, help="name of the Secrets Manager secret")
    ap.add_argument("--max-age", type=int, default=90)
    ap.add_argument("--delete-inactive", action="store_true")
    args = ap.parse_args()

    iam = boto3.client("iam")
    sm = boto3.client("secretsmanager")
    keys = iam.list_access_keys(UserName=args.user)["AccessKeyMetadata"]
    now = datetime.now(timezone.utc)

    for k in keys:
        if k["Status"] == "Inactive" and args.delete_inactive:
            iam.delete_access_key(UserName=args.user, AccessKeyId=k["AccessKeyId"])
            print("deleted inactive key", k["AccessKeyId"][-4:])
    active = [k for k in keys if k["Status"] == "Active"]
    expired = [k for k in active if (now - k["CreateDate"]).days >= args.max_age]
    if active and not expired:
        print("no key is old enough")
        return
    if len(active) >= 2:
        raise SystemExit("user has two active keys already, clean up first")

    new = iam.create_access_key(UserName=args.user)["AccessKey"]
    sm.put_secret_value(
        SecretId=args.secret,
        SecretString=json.dumps({"AWS_ACCESS_KEY_ID": new["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": new["SecretAccessKey"]}),
    )
    print("created key ending in", new["AccessKeyId"][-4:])
    for k in expired:
        iam.update_access_key(UserName=args.user, AccessKeyId=k["AccessKeyId"], Status="Inactive")
        print("deactivated key ending in", k["AccessKeyId"][-4:])


if __name__ == "__main__":
    main()
