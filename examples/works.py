"""A generated program that works: reads a till's log, adds up each day, and names what does not fit.

It uses what a program may use in the sandbox: its own scratch folder, a child process, a server on the private loopback.
"""

import csv
import http.server
import io
import statistics
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections import defaultdict
from pathlib import Path

LOG = """day,item,price,count
mon,coffee,2.40,31
mon,tea,2.10,12
tue,coffee,2.40,28
tue,bread,3.75,9
wed,coffee,2.40,30
wed,tea,2.10,x
thu,coffee,2.40,4
"""


def totals(text):
    """Cents for each day, and the rows that could not be read."""
    days, unread = defaultdict(int), []
    for number, row in enumerate(csv.DictReader(io.StringIO(text)), start=2):
        try:
            days[row["day"]] += round(float(row["price"]) * 100) * int(row["count"])
        except ValueError as error:
            unread.append((number, str(error)))
    return dict(days), unread


def unusual(days):
    """Days that took less than half of the median."""
    middle = statistics.median(days.values())
    return [day for day, cents in days.items() if cents < middle / 2]


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.server.report.encode())

    def log_message(self, *_):
        pass


def main():
    days, unread = totals(LOG)
    lines = [f"{day}: {cents / 100:8.2f}" for day, cents in days.items()]
    lines += [f"line {number} was left out: {why}" for number, why in unread]
    lines += [f"unusual: {day}" for day in unusual(days)]

    report = Path(tempfile.mkdtemp()) / "report.txt"
    report.write_text("\n".join(lines) + "\n")
    counted = subprocess.run(["wc", "-l", report], capture_output=True, text=True, check=True)

    try:
        server = http.server.HTTPServer(("127.0.0.1", 0), Page)
    except OSError:
        # The profiles landlock-only and strict have no loopback.
        print(report.read_text(), end="")
        how = "written to scratch; there is no loopback to serve it on"
    else:
        server.report = report.read_text()
        threading.Thread(target=server.handle_request, daemon=True).start()
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/") as answer:
            print(answer.read().decode(), end="")
        how = "written to scratch and served on the private loopback"
    print(f"{counted.stdout.split()[0]} lines, {how}")


if __name__ == "__main__":
    sys.exit(main())
