"""Small refactoring helper: report unused imports and rename functions."""
import argparse
import ast
import re
from pathlib import Path


class Imports(ast.NodeVisitor):
    def __init__(self):
        self.imported = {}
        self.used = set()

    def visit_Import(self, node):
        for a in node.names:
            self.imported[(a.asname or a.name).split(".")[0]] = node.lineno

    def visit_ImportFrom(self, node):
        if node.module == "__future__":
            return
        for a in node.names:
            if a.name != "*":
                self.imported[a.asname or a.name] = node.lineno

    def visit_Name(self, node):
        self.used.add(node.id)


def unused(tree, source):
    v = Imports()
    v.visit(tree)
    exported = set(re.findall(r"__all__\s*=\s*\[(.*?)\]", source, re.S))
    names = {n.strip(" '\"\n") for block in exported for n in block.split(",")}
    return {n: l for n, l in v.imported.items() if n not in v.used and n not in names}


def rename(source, tree, old, new):
    edits = []
    lines = source.splitlines(keepends=True)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == old:
            edits.append((node.lineno, node.col_offset))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == old:
            edits.append((node.lineno, lines[node.lineno - 1].index(old, node.col_offset + 3)))
    for line, col in sorted(edits, reverse=True):
        text = lines[line - 1]
        lines[line - 1] = text[:col] + new + text[col + len(old):]
    return "".join(lines), len(edits)


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("root", type=Path)
    ap.add_argument("--rename", nargs=2, metavar=("OLD", "NEW"))
    args = ap.parse_args()
    for path in sorted(args.root.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        try:
            tree = ast.parse(source)
        except SyntaxError as e:
            print(f"{path}: {e}")
            continue
        if args.rename:
            result, n = rename(source, tree, *args.rename)
            if n:
                path.write_text(result, encoding="utf-8")
                print(f"{path}: {n} renamed")
        else:
            for name, line in unused(tree, source).items():
                print(f"{path}:{line}: unused import {name}")


if __name__ == "__main__":
    main()
