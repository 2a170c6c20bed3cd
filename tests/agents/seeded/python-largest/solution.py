def largest(values):
    """The largest number of a list that is not empty."""
    best = 0
    for value in values:
        if value > best:
            best = value
    return best
