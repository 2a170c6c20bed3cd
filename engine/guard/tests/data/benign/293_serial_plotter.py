import argparse
import csv
import sys
import time
from collections import deque

import serial
from serial.tools import list_ports


def find_port():
    for p in list_ports.comports():
        if any(s in (p.description or "") for s in ("Arduino", "CH340", "USB Serial")):
            return p.device
    sys.exit("no Arduino found, use --port")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--port")
    ap.add_argument("--baud", type=int, default=115200)
    ap.add_argument("--out", default="samples.csv")
    args = ap.parse_args()
    window = deque(maxlen=200)
    with serial.Serial(args.port or find_port(), args.baud, timeout=2) as ser, open(args.out, "w", newline="") as fh:
        writer = csv.writer(fh)
        writer.writerow(["t", "value"])
        time.sleep(2)  # the board resets when the port opens
        ser.reset_input_buffer()
        start = time.time()
        while True:
            line = ser.readline().decode("ascii", "ignore").strip()
            if not line:
                continue
            try:
                value = float(line)
            except ValueError:
                continue
            t = time.time() - start
            writer.writerow([f"{t:.3f}", value])
            window.append(value)
            mean = sum(window) / len(window)
            bar = "*" * int(min(50, max(0, value / 1023 * 50)))
            print(f"\r{value:8.2f} mean {mean:8.2f} [{bar:<50}]", end="", flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print()
