import argparse
import datetime
import shutil
import subprocess
import sys
import time


def notify(title, text):
    print(f"\a\n{title}: {text}")
    if sys.platform == "darwin":
        subprocess.run(["osascript", "-e", f'display notification "{text}" with title "{title}"'])
    elif shutil.which("notify-send"):
        subprocess.run(["notify-send", title, text])


def countdown(minutes, label):
    end = time.monotonic() + minutes * 60
    while (left := end - time.monotonic()) > 0:
        m, s = divmod(int(left), 60)
        print(f"\r{label} {m:02d}:{s:02d} ", end="", flush=True)
        time.sleep(1)
    print()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("task", nargs="?", default="work")
    ap.add_argument("-w", "--work", type=float, default=25)
    ap.add_argument("-b", "--short-break", type=float, default=5)
    ap.add_argument("-l", "--long-break", type=float, default=15)
    ap.add_argument("-n", "--rounds", type=int, default=4)
    args = ap.parse_args()
    try:
        for i in range(1, args.rounds + 1):
            countdown(args.work, f"[{i}/{args.rounds}] {args.task}")
            with open("pomodoro.log", "a") as f:
                f.write(f"{datetime.datetime.now():%Y-%m-%d %H:%M} {args.task} {args.work:g} min\n")
            last = i == args.rounds
            notify("Pomodoro", "Time for a long break" if last else "Time for a break")
            countdown(args.long_break if last else args.short_break, "break")
            if not last:
                notify("Pomodoro", "Back to work")
    except KeyboardInterrupt:
        print("\nstopped")


if __name__ == "__main__":
    main()
