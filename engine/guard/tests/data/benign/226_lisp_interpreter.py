"""A tiny Scheme-like interpreter."""
import math
import operator as op


class Env(dict):
    def __init__(self, params=(), args=(), outer=None):
        super().__init__(zip(params, args))
        self.outer = outer

    def find(self, name):
        if name in self:
            return self
        if self.outer is None:
            raise NameError(f"undefined symbol: {name}")
        return self.outer.find(name)


def standard_env():
    env = Env()
    env.update({k: v for k, v in vars(math).items() if not k.startswith("_")})
    env.update({
        "+": op.add, "-": op.sub, "*": op.mul, "/": op.truediv, ">": op.gt, "<": op.lt, "=": op.eq,
        "car": lambda x: x[0], "cdr": lambda x: x[1:], "cons": lambda x, y: [x] + y, "list": lambda *x: list(x),
        "null?": lambda x: x == [], "not": op.not_, "print": print, "length": len,
    })
    return env


def tokenize(text):
    return text.replace("(", " ( ").replace(")", " ) ").split()


def read(tokens):
    if not tokens:
        raise SyntaxError("unexpected end")
    tok = tokens.pop(0)
    if tok == "(":
        out = []
        while tokens and tokens[0] != ")":
            out.append(read(tokens))
        if not tokens:
            raise SyntaxError("missing )")
        tokens.pop(0)
        return out
    if tok == ")":
        raise SyntaxError("unexpected )")
    for cast in (int, float):
        try:
            return cast(tok)
        except ValueError:
            pass
    return tok


def evaluate(x, env):
    if isinstance(x, str):
        return env.find(x)[x]
    if not isinstance(x, list):
        return x
    head, *rest = x
    if head == "quote":
        return rest[0]
    if head == "if":
        test, then, *other = rest
        return evaluate(then, env) if evaluate(test, env) else evaluate(other[0], env) if other else None
    if head == "define":
        env[rest[0]] = evaluate(rest[1], env)
        return None
    if head == "lambda":
        params, body = rest
        return lambda *args: evaluate(body, Env(params, args, env))
    fn = evaluate(head, env)
    return fn(*[evaluate(arg, env) for arg in rest])


def repl():
    env = standard_env()
    while True:
        try:
            line = input("lisp> ")
        except EOFError:
            break
        try:
            result = evaluate(read(tokenize(line)), env)
            if result is not None:
                print(result)
        except Exception as e:
            print(f"{type(e).__name__}: {e}")


if __name__ == "__main__":
    repl()
