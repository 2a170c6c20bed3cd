"""Lines of a basket and what they come to, in cents."""

from dataclasses import dataclass

VOLUME_DISCOUNTS = ((100, 15), (50, 10), (10, 5))


@dataclass(frozen=True)
class Line:
    name: str
    cents: int
    count: int = 1


def parse_line(text):
    """Reads ``2 x apple @ 0.40``."""
    count, _, rest = text.partition(" x ")
    name, _, price = rest.rpartition(" @ ")
    if not name:
        raise ValueError(f"not a line of a basket: {text!r}")
    return Line(name.strip(), round(float(price) * 100), int(count))


def discount(count):
    """Percent off for this many of one thing."""
    for least, percent in VOLUME_DISCOUNTS:
        if count > least:
            return percent
    return 0


def total(lines):
    """The sum of all lines after discounts, in cents."""
    return sum(line.cents * line.count * (100 - discount(line.count)) // 100 for line in lines)
