import unittest

from solution import count_words


class CountWords(unittest.TestCase):
    def test_small(self):
        self.assertEqual(count_words("a b a"), {"a": 2, "b": 1})

    def test_capitals(self):
        self.assertEqual(count_words("The cat and the dog"), {"the": 2, "cat": 1, "and": 1, "dog": 1})

    def test_empty(self):
        self.assertEqual(count_words(""), {})
