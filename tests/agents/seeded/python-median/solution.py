def median(values):
    """The value in the middle; of an even number of values, the mean of the two in the middle."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle]
