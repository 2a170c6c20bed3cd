"""Compute the next run times of a cron expression."""
import sys
from datetime import datetime, timedelta

FIELDS = [("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("weekday", 0, 7)]
MONTHS = {m: i for i, m in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)}
DAYS = {d: i for i, d in enumerate("sun mon tue wed thu fri sat".split())}


def number(text, names):
    return names[text.lower()] if text.lower() in names else int(text)


def parse_field(text, low, high, names):
    values = set()
    for part in text.split(","):
        part, _, step = part.partition("/")
        if part == "*":
            start, end = low, high
        elif "-" in part:
            start, end = (number(p, names) for p in part.split("-"))
        else:
            start = number(part, names)
            end = high if step else start
        if not low <= start <= end <= high:
            raise ValueError(f"{text!r} is out of range {low}-{high}")
        values.update(range(start, end + 1, int(step or 1)))
    return values


class Cron:
    def __init__(self, expr):
        parts = expr.split()
        if len(parts) != 5:
            raise ValueError("five fields expected")
        names = [{}, {}, {}, MONTHS, DAYS]
        self.sets = [parse_field(p, lo, hi, n) for p, (_, lo, hi), n in zip(parts, FIELDS, names)]
        if 7 in self.sets[4]:
            self.sets[4].add(0)
        self.any_day, self.any_wd = parts[2] == "*", parts[4] == "*"

    def matches_day(self, t):
        dom = t.day in self.sets[2]
        dow = (t.isoweekday() % 7) in self.sets[4]
        if self.any_day or self.any_wd:
            return dom and dow
        return dom or dow

    def upcoming(self, start):
        t = start.replace(second=0, microsecond=0) + timedelta(minutes=1)
        limit = start + timedelta(days=366 * 5)
        while t < limit:
            if t.month not in self.sets[3] or not self.matches_day(t):
                t = t.replace(hour=0, minute=0) + timedelta(days=1)
            elif t.hour not in self.sets[1]:
                t = t.replace(minute=0) + timedelta(hours=1)
            else:
                if t.minute in self.sets[0]:
                    yield t
                t += timedelta(minutes=1)


if __name__ == "__main__":
    expr = " ".join(sys.argv[1:]) or "*/15 9-17 * * mon-fri"
    gen = Cron(expr).upcoming(datetime.now())
    for _ in range(5):
        print(next(gen).strftime("%a %Y-%m-%d %H:%M"))
