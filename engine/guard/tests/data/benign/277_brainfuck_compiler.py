"""Compile Brainfuck to Python and run it."""
import argparse
import re
import sys


def compile_bf(source: str) -> str:
    code = re.sub(r"[^-+<>.,\[\]]", "", source)
    if code.count("[") != code.count("]"):
        raise SyntaxError("unbalanced brackets")
    lines = ["def program(read, write):", "    tape = bytearray(30000)", "    p = 0"]
    depth = 1
    for run in re.findall(r"\++|-+|<+|>+|\[-\]|\.|,|\[|\]", code):
        pad = "    " * depth
        op, n = run[0], len(run)
        if run == "[-]":
            lines.append(f"{pad}tape[p] = 0")
        elif op == "+":
            lines.append(f"{pad}tape[p] = (tape[p] + {n}) & 255")
        elif op == "-":
            lines.append(f"{pad}tape[p] = (tape[p] - {n}) & 255")
        elif op == ">":
            lines.append(f"{pad}p += {n}")
        elif op == "<":
            lines.append(f"{pad}p -= {n}")
        elif op == ".":
            lines.append(f"{pad}write(tape[p])")
        elif op == ",":
            lines.append(f"{pad}tape[p] = read()")
        elif op == "[":
            lines.append(f"{pad}while tape[p]:")
            lines.append(f"{pad}    pass")
            depth += 1
        elif op == "]":
            depth -= 1
            if depth < 1:
                raise SyntaxError("unexpected ]")
    return "\n".join(lines) + "\n"


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("file", type=argparse.FileType("r"))
    ap.add_argument("--show", action="store_true", help="print the generated code")
    args = ap.parse_args()
    python = compile_bf(args.file.read())
    if args.show:
        print(python)
        return
    namespace = {}
    exec(compile(python, args.file.name, "exec"), namespace)

    def read():
        ch = sys.stdin.buffer.read(1)
        return ch[0] if ch else 0

    def write(b):
        sys.stdout.buffer.write(bytes([b]))

    namespace["program"](read, write)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
