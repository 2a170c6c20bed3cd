import unittest

from solution import largest


class Largest(unittest.TestCase):
    def test_positive(self):
        self.assertEqual(largest([3, 9, 2]), 9)

    def test_one(self):
        self.assertEqual(largest([4]), 4)

    def test_negative(self):
        self.assertEqual(largest([-5, -2, -8]), -2)
