"""Roman numerals.

>>> to_roman(1994)
'MCMXCIV'
>>> from_roman("MMXXIV")
2024
"""
import re
import unittest

TABLE = [
    (1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"),
    (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"),
]
VALID = re.compile(r"M{0,3}(CM|CD|D?C{0,3})(XC|XL|L?X{0,3})(IX|IV|V?I{0,3})")


def to_roman(n: int) -> str:
    if not 0 < n < 4000:
        raise ValueError("number must be between 1 and 3999")
    out = ""
    for value, symbol in TABLE:
        count, n = divmod(n, value)
        out += symbol * count
    return out


def from_roman(text: str) -> int:
    text = text.strip().upper()
    if not text or not VALID.fullmatch(text):
        raise ValueError(f"invalid roman numeral: {text!r}")
    total = 0
    for value, symbol in TABLE:
        while text.startswith(symbol):
            total += value
            text = text[len(symbol):]
    return total


class RomanTest(unittest.TestCase):
    def test_round_trip(self):
        for n in range(1, 4000):
            with self.subTest(n=n):
                self.assertEqual(from_roman(to_roman(n)), n)

    def test_invalid(self):
        for bad in ("", "IIII", "VX", "ABC", "MMMM"):
            with self.subTest(bad=bad), self.assertRaises(ValueError):
                from_roman(bad)

    def test_out_of_range(self):
        for n in (0, -1, 4000):
            self.assertRaises(ValueError, to_roman, n)


if __name__ == "__main__":
    import doctest

    doctest.testmod()
    unittest.main()
