"""Upload the variables of a .env file as GitHub Actions secrets (encrypted with the repo's public key)."""
import argparse
import base64
import os
import sys

import requests
from dotenv import dotenv_values
from nacl import encoding, public


def encrypt(public_key: str, value: str) -> str:
    key = public.PublicKey(public_key.encode(), encoding.Base64Encoder())
    sealed = public.SealedBox(key).encrypt(value.encode())
    return base64.b64encode(sealed).decode()


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("repo", help="owner/name")
    ap.add_argument("--env-file", default=".env.production")
    ap.add_argument("--only", nargs="*")
    args = ap.parse_args()

    token = os.environ.get("GITHUB_TOKEN")
    if not token:
        sys.exit("GITHUB_TOKEN is required (repo scope)")
    base = f"https://api.github.com/repos/{args.repo}/actions/secrets"
    s = requests.Session()
    s.headers.update({"Authorization": f"Bearer {token}", "Accept": "application/vnd.github+json"})

    r = s.get(f"{base}/public-key", timeout=15)
    r.raise_for_status()
    key = r.json()

    values = dotenv_values(args.env_file)
    for name, value in values.items():
        if not value or (args.only and name not in args.only):
            continue
        body = {"encrypted_value": encrypt(key["key"], value), "key_id": key["key_id"]}
        resp = s.put(f"{base}/{name}", json=body, timeout=15)
        resp.raise_for_status()
        print(f"{'created' if resp.status_code == 201 else 'updated'} {name}")


if __name__ == "__main__":
    main()
