"""The functions of wit/plugin.wit."""

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports.tools import Counts


class Tools(exports.Tools):
    def count(self, text, longest):
        if not text:
            raise Err("there is no text")
        words = [word for word in text.split() if longest is None or len(word) <= longest]
        return Counts(words=len(words), lines=len(text.splitlines()))
