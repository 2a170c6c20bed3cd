"""A small recursive descent JSON parser (for learning, use the json module in real code)."""


class JSONError(ValueError):
    pass


class Parser:
    ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}

    def __init__(self, text):
        self.text = text
        self.pos = 0

    def error(self, msg):
        raise JSONError(f"{msg} at position {self.pos}")

    def peek(self):
        while self.pos < len(self.text) and self.text[self.pos] in " \t\r\n":
            self.pos += 1
        return self.text[self.pos] if self.pos < len(self.text) else ""

    def expect(self, ch):
        if self.peek() != ch:
            self.error(f"expected {ch!r}")
        self.pos += 1

    def parse(self):
        value = self.value()
        if self.peek():
            self.error("trailing data")
        return value

    def value(self):
        ch = self.peek()
        if ch == "{":
            return self.obj()
        if ch == "[":
            return self.array()
        if ch == '"':
            return self.string()
        for literal, result in (("true", True), ("false", False), ("null", None)):
            if self.text.startswith(literal, self.pos):
                self.pos += len(literal)
                return result
        return self.number()

    def obj(self):
        result = {}
        self.expect("{")
        if self.peek() == "}":
            self.pos += 1
            return result
        while True:
            self.peek()
            key = self.string()
            self.expect(":")
            result[key] = self.value()
            if self.peek() == ",":
                self.pos += 1
                continue
            self.expect("}")
            return result

    def array(self):
        result = []
        self.expect("[")
        if self.peek() == "]":
            self.pos += 1
            return result
        while True:
            result.append(self.value())
            if self.peek() == ",":
                self.pos += 1
                continue
            self.expect("]")
            return result

    def string(self):
        self.expect('"')
        out = []
        while True:
            if self.pos >= len(self.text):
                self.error("unterminated string")
            ch = self.text[self.pos]
            self.pos += 1
            if ch == '"':
                return "".join(out)
            if ch == "\\":
                esc = self.text[self.pos]
                self.pos += 1
                if esc == "u":
                    out.append(chr(int(self.text[self.pos:self.pos + 4], 16)))
                    self.pos += 4
                else:
                    out.append(self.ESCAPES.get(esc) or self.error("bad escape"))
            else:
                out.append(ch)

    def number(self):
        start = self.pos
        while self.pos < len(self.text) and self.text[self.pos] in "+-0123456789.eE":
            self.pos += 1
        raw = self.text[start:self.pos]
        if not raw:
            self.error("unexpected character")
        return float(raw) if any(c in raw for c in ".eE") else int(raw)


if __name__ == "__main__":
    print(Parser('{"a": [1, 2.5, -3e2], "b": {"c": null, "d": "x\\ny"}}').parse())
