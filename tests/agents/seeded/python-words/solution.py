def count_words(text):
    """How often each word is in a text, in small letters."""
    counts = {}
    for word in text.split():
        counts[word] = counts.get(word, 0) + 1
    return counts
