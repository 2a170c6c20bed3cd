import argparse
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


def slots(day, zones, start, end, length):
    """Yield UTC start times on which everybody is inside of working hours."""
    t = datetime.combine(day, time(0), ZoneInfo("UTC"))
    for _ in range(48):
        ok = True
        for z in zones:
            local_start = t.astimezone(z)
            local_end = (t + length).astimezone(z)
            if local_start.weekday() > 4 or local_start.time() < start:
                ok = False
            elif local_end.date() != local_start.date() or local_end.time() > end:
                ok = False
        if ok:
            yield t
        t += timedelta(minutes=30)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("zones", nargs="+", help="e.g. Europe/Berlin America/New_York")
    ap.add_argument("--date", type=date.fromisoformat, default=date.today())
    ap.add_argument("--hours", default="08-18")
    ap.add_argument("--minutes", type=int, default=60)
    args = ap.parse_args()
    try:
        zones = [ZoneInfo(z) for z in args.zones]
    except ZoneInfoNotFoundError as e:
        ap.error(str(e))
    start, end = (time(int(h)) for h in args.hours.split("-"))
    found = list(slots(args.date, zones, start, end, timedelta(minutes=args.minutes)))
    if not found:
        print("No common working hours; try --hours 07-21")
    for t in found:
        print("  |  ".join(f"{z.key.split('/')[-1]} {t.astimezone(z):%a %H:%M}" for z in zones))


if __name__ == "__main__":
    main()
