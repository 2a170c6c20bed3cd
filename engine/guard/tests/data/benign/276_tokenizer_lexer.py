from __future__ import annotations

import enum
import re
import sys
from dataclasses import dataclass
from typing import Iterator


class T(enum.Enum):
    NUMBER = r"\d+(?:\.\d+)?"
    STRING = r'"(?:\\.|[^"\\\n])*"'
    NAME = r"[A-Za-z_]\w*"
    OP = r"==|!=|<=|>=|&&|\|\||[+\-*/%=<>!]"
    PUNCT = r"[(){}\[\],;:.]"
    COMMENT = r"#[^\n]*"
    NEWLINE = r"\n"
    SPACE = r"[ \t\r]+"


KEYWORDS = {"let", "fn", "if", "else", "while", "return", "true", "false", "nil"}
MASTER = re.compile("|".join(f"(?P<{t.name}>{t.value})" for t in T))


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    line: int
    column: int


class LexError(SyntaxError):
    pass


def tokenize(source: str) -> Iterator[Token]:
    line, start, pos = 1, 0, 0
    while pos < len(source):
        m = MASTER.match(source, pos)
        if m is None:
            raise LexError(f"line {line}, column {pos - start + 1}: unexpected {source[pos]!r}")
        kind, text = m.lastgroup, m.group()
        if kind == "NEWLINE":
            line += 1
            start = m.end()
        elif kind not in ("SPACE", "COMMENT"):
            if kind == "NAME" and text in KEYWORDS:
                kind = "KEYWORD"
            yield Token(kind, text, line, pos - start + 1)
        pos = m.end()
    yield Token("EOF", "", line, pos - start + 1)


if __name__ == "__main__":
    src = open(sys.argv[1]).read() if len(sys.argv) > 1 else 'let x = 3.5; # comment\nif (x >= 2) { print("hi \\"you\\""); }\n'
    for tok in tokenize(src):
        print(f"{tok.line:>3}:{tok.column:<3} {tok.kind:<8} {tok.text}")
