"""Prints the calls of a task as model.py takes them: a CSV file with gaps is put into a session, cleaned, drawn, fitted, and the result saved.

Python's own library is enough, so that nothing has to be installed: the plot is a PNG that the cell draws point by point.
"""

import base64
import json

TABLE = """day,degrees
1,3.0
2,5.0
3,
4,9.0
5,eleven
6,13.0
7,15.0
"""

LOAD = """
import csv
with open("measured.csv") as file:
    rows = list(csv.DictReader(file))
len(rows)
"""

CLEAN = """
def number(text):
    try:
        return float(text)
    except ValueError:
        return None

points = [(float(row["day"]), number(row["degrees"])) for row in rows]
points = [(x, y) for x, y in points if y is not None]
print(f"cleaned {len(points)} of {len(rows)} rows")
"""

FIT = """
import statistics
line = statistics.linear_regression(*zip(*points))
print(f"slope {line.slope:.2f} intercept {line.intercept:.2f}")
"""

PLOT = """
import struct, zlib

class Plot:
    WIDTH, HEIGHT = 200, 160

    def _repr_png_(self):
        rows = [bytearray(b"\\xff" * self.WIDTH) for _ in range(self.HEIGHT)]
        at = lambda x, y: (int(x * 24), self.HEIGHT - 1 - int(y * 9))
        for step in range(800):
            x, y = at(step / 100, line.slope * step / 100 + line.intercept)
            if 0 <= y < self.HEIGHT:
                rows[y][x] = 128
        for x, y in (at(*point) for point in points):
            for near in range(max(y - 2, 0), min(y + 3, self.HEIGHT)):
                rows[near][max(x - 2, 0):x + 3] = bytes(len(rows[near][max(x - 2, 0):x + 3]))
        part = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        head = struct.pack(">IIBBBBB", self.WIDTH, self.HEIGHT, 8, 0, 0, 0, 0)
        lines = b"".join(b"\\0" + bytes(row) for row in rows)
        return b"\\x89PNG\\r\\n\\x1a\\n" + part(b"IHDR", head) + part(b"IDAT", zlib.compress(lines)) + part(b"IEND", b"")

Plot()
"""

SAVE = """
import json, os
os.makedirs("outputs", exist_ok=True)
with open("outputs/fit.json", "w") as file:
    json.dump({"slope": line.slope, "intercept": line.intercept}, file)
with open("outputs/result.csv", "w", newline="") as file:
    csv.writer(file).writerows([("day", "degrees"), *points])
"""


def cell(code):
    return ["hotcell", "session_execute", {"session_id": "@session_id@", "code": code}]


put = {"session_id": "@session_id@", "path": "measured.csv", "content": TABLE}
calls = [["hotcell", "session_create", {"language": "python"}], ["hotcell", "session_upload", put]]
calls += [cell(code) for code in (LOAD, CLEAN, FIT, PLOT, SAVE)]
calls.append(["hotcell", "session_close", {"session_id": "@session_id@"}])
print(json.dumps(calls))
