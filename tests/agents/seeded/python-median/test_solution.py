import unittest

from solution import median


class Median(unittest.TestCase):
    def test_odd(self):
        self.assertEqual(median([5, 1, 3]), 3)

    def test_even(self):
        self.assertEqual(median([4, 1, 3, 2]), 2.5)

    def test_two(self):
        self.assertEqual(median([2, 4]), 3)
