import os
import sys

import requests
from tqdm import tqdm


def download(url, dest=None, chunk=1 << 16):
    dest = dest or url.rstrip("/").split("/")[-1].split("?")[0]
    part = dest + ".part"
    pos = os.path.getsize(part) if os.path.exists(part) else 0
    headers = {"Range": f"bytes={pos}-"} if pos else {}
    with requests.get(url, headers=headers, stream=True, timeout=30) as r:
        if r.status_code == 416:  # already complete
            os.replace(part, dest)
            return dest
        r.raise_for_status()
        if pos and r.status_code != 206:
            print("server does not support resume, starting again")
            pos = 0
        total = int(r.headers.get("Content-Length", 0)) + pos or None
        with open(part, "ab" if pos else "wb") as f, tqdm(
            total=total, initial=pos, unit="B", unit_scale=True, desc=dest
        ) as bar:
            for data in r.iter_content(chunk):
                f.write(data)
                bar.update(len(data))
    os.replace(part, dest)
    return dest


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: download_resume.py URL [FILE]")
    for attempt in range(5):
        try:
            print("saved", download(*sys.argv[1:3]))
            break
        except (requests.ConnectionError, requests.Timeout) as e:
            print(f"connection lost ({e}), retrying")
    else:
        sys.exit("giving up")
