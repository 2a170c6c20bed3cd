import csv
import json
import sqlite3
import sys
import time
import urllib.parse
import urllib.request

URL = "https://nominatim.openstreetmap.org/search?"
AGENT = "address-batch/1.0 (ops@example.org)"


class Geocoder:
    def __init__(self, cache="geocode.db"):
        self.db = sqlite3.connect(cache)
        self.db.execute("CREATE TABLE IF NOT EXISTS cache (q TEXT PRIMARY KEY, result TEXT)")
        self.last = 0.0

    def lookup(self, address):
        row = self.db.execute("SELECT result FROM cache WHERE q = ?", (address,)).fetchone()
        if row:
            return json.loads(row[0])
        wait = 1.0 - (time.monotonic() - self.last)
        if wait > 0:
            time.sleep(wait)
        query = urllib.parse.urlencode({"q": address, "format": "json", "limit": 1})
        req = urllib.request.Request(URL + query, headers={"User-Agent": AGENT})
        with urllib.request.urlopen(req, timeout=20) as r:
            hits = json.load(r)
        self.last = time.monotonic()
        result = {"lat": hits[0]["lat"], "lon": hits[0]["lon"]} if hits else None
        with self.db:
            self.db.execute("INSERT INTO cache VALUES (?, ?)", (address, json.dumps(result)))
        return result


def main(src, dst):
    geo = Geocoder()
    with open(src, newline="") as fin, open(dst, "w", newline="") as fout:
        reader = csv.DictReader(fin)
        writer = csv.DictWriter(fout, reader.fieldnames + ["lat", "lon"])
        writer.writeheader()
        for row in reader:
            try:
                hit = geo.lookup(row["address"]) or {}
            except OSError as e:
                print(f"{row['address']}: {e}", file=sys.stderr)
                hit = {}
            writer.writerow({**row, "lat": hit.get("lat", ""), "lon": hit.get("lon", "")})


if __name__ == "__main__":
    main(*sys.argv[1:3])
