"""A generated program with a bug: it divides by the number of answers that pass a filter, and none does."""

ANSWERS = [
    {"name": "first", "score": 0.42},
    {"name": "second", "score": 0.58},
]


def mean(values):
    return sum(values) / len(values)


def summary(answers, at_least):
    good = [a["score"] for a in answers if a["score"] >= at_least]
    return f"{len(good)} of {len(answers)} at {at_least} or better, mean {mean(good):.2f}"


print(summary(ANSWERS, 0.4))
print(summary(ANSWERS, 0.5))
print(summary(ANSWERS, 0.6))
