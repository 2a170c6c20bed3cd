from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Iterable

WEEKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]


def is_business_day(d: date, holidays: Iterable[date] = ()) -> bool:
    return d.weekday() < 5 and d not in set(holidays)


def add_business_days(start: date, n: int, holidays: Iterable[date] = ()) -> date:
    step = timedelta(days=1 if n >= 0 else -1)
    current = start
    remaining = abs(n)
    while remaining:
        current += step
        if is_business_day(current, holidays):
            remaining -= 1
    return current


def next_weekday(start: date, name: str) -> date:
    target = WEEKDAYS.index(name.lower())
    days = (target - start.weekday()) % 7 or 7
    return start + timedelta(days=days)


def humanize(dt: datetime, now: datetime | None = None) -> str:
    now = now or datetime.now(dt.tzinfo)
    seconds = (now - dt).total_seconds()
    suffix = "ago" if seconds >= 0 else "from now"
    seconds = abs(seconds)
    for limit, div, unit in ((60, 1, "second"), (3600, 60, "minute"), (86400, 3600, "hour"), (2592000, 86400, "day"), (31536000, 2592000, "month")):
        if seconds < limit:
            n = int(seconds // div)
            return f"{n} {unit}{'s' * (n != 1)} {suffix}"
    n = int(seconds // 31536000)
    return f"{n} year{'s' * (n != 1)} {suffix}"


if __name__ == "__main__":
    today = date.today()
    print("in 10 business days:", add_business_days(today, 10))
    print("next friday:", next_weekday(today, "Friday"))
    print(humanize(datetime.now() - timedelta(hours=5)))
