"""Prices a shopping basket."""

from basket.pricing import Line, parse_line, total

__all__ = ["Line", "parse_line", "total"]
