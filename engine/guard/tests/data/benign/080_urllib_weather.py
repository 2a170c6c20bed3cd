import json
import sys
import urllib.error
import urllib.parse
import urllib.request


def fetch_json(url, params=None, timeout=10):
    if params:
        url += "?" + urllib.parse.urlencode(params)
    req = urllib.request.Request(url, headers={"Accept": "application/json", "User-Agent": "rates-cli/1.0"})
    with urllib.request.urlopen(req, timeout=timeout) as resp:
        charset = resp.headers.get_content_charset() or "utf-8"
        return json.loads(resp.read().decode(charset))


def main():
    base = sys.argv[1].upper() if len(sys.argv) > 1 else "EUR"
    symbols = ",".join(sys.argv[2:]).upper() or "USD,GBP,CHF,JPY"
    try:
        data = fetch_json("https://api.frankfurter.app/latest", {"from": base, "to": symbols})
    except urllib.error.HTTPError as e:
        sys.exit(f"server answered {e.code}: {e.read(200)!r}")
    except urllib.error.URLError as e:
        sys.exit(f"network problem: {e.reason}")
    print(f"1 {data['base']} on {data['date']}:")
    for cur, rate in sorted(data["rates"].items()):
        print(f"  {cur} {rate:>12.4f}")


if __name__ == "__main__":
    main()
