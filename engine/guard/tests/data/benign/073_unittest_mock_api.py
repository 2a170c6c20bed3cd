import unittest
from unittest.mock import MagicMock, patch

import requests


class CurrencyClient:
    URL = "https://rates.example.com/latest"

    def __init__(self, session=None):
        self.session = session or requests.Session()

    def rate(self, base, target):
        resp = self.session.get(self.URL, params={"base": base}, timeout=5)
        resp.raise_for_status()
        try:
            return resp.json()["rates"][target]
        except KeyError:
            raise LookupError(f"no rate for {target}")

    def convert(self, amount, base, target):
        if base == target:
            return amount
        return round(amount * self.rate(base, target), 2)


class CurrencyClientTest(unittest.TestCase):
    def setUp(self):
        self.session = MagicMock(spec=requests.Session)
        self.response = self.session.get.return_value
        self.response.json.return_value = {"rates": {"EUR": 0.9, "GBP": 0.8}}
        self.client = CurrencyClient(self.session)

    def test_convert(self):
        self.assertEqual(self.client.convert(10, "USD", "EUR"), 9.0)
        self.session.get.assert_called_once_with(CurrencyClient.URL, params={"base": "USD"}, timeout=5)

    def test_same_currency_makes_no_request(self):
        self.assertEqual(self.client.convert(10, "USD", "USD"), 10)
        self.session.get.assert_not_called()

    def test_unknown_currency(self):
        with self.assertRaises(LookupError):
            self.client.rate("USD", "XXX")

    def test_http_error(self):
        self.response.raise_for_status.side_effect = requests.HTTPError("500")
        with self.assertRaises(requests.HTTPError):
            self.client.rate("USD", "EUR")

    @patch("requests.Session")
    def test_default_session(self, session_cls):
        self.assertIs(CurrencyClient().session, session_cls.return_value)


if __name__ == "__main__":
    unittest.main()
