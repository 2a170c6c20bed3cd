import os
import sys
import time

import requests
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

API_URL = os.environ.get("UPLOAD_URL", "https://files.example.com/api/v1/upload")
TOKEN = os.environ.get("UPLOAD_TOKEN")


def make_session():
    session = requests.Session()
    retry = Retry(total=5, backoff_factor=1, status_forcelist=[429, 502, 503, 504], allowed_methods=["POST"])
    session.mount("https://", HTTPAdapter(max_retries=retry))
    session.headers["Authorization"] = f"Bearer {TOKEN}"
    return session


def upload(session, path):
    with open(path, "rb") as fh:
        start = time.time()
        resp = session.post(API_URL, files={"file": (os.path.basename(path), fh)}, timeout=300)
    resp.raise_for_status()
    info = resp.json()
    print(f"{path}: id={info.get('id')} in {time.time() - start:.1f}s")


def main():
    if not TOKEN:
        sys.exit("UPLOAD_TOKEN is not set")
    if len(sys.argv) < 2:
        sys.exit("usage: upload_file_api.py FILE...")
    session = make_session()
    errors = 0
    for path in sys.argv[1:]:
        try:
            upload(session, path)
        except (requests.RequestException, OSError) as e:
            print(f"{path}: {e}", file=sys.stderr)
            errors += 1
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
