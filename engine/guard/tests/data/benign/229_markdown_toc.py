import re
import sys
import unicodedata

START, END = "<!-- toc -->", "<!-- tocstop -->"
HEADING = re.compile(r"^(#{2,4})\s+(.+?)\s*#*$")


def slugify(text, used):
    text = re.sub(r"[`*_]|\[([^\]]*)\]\([^)]*\)", r"\1", text)
    slug = unicodedata.normalize("NFC", text).lower()
    slug = re.sub(r"[^\w\- ]", "", slug).replace(" ", "-")
    n = used.get(slug, 0)
    used[slug] = n + 1
    return f"{slug}-{n}" if n else slug


def toc(lines):
    used, fenced, out = {}, False, []
    for line in lines:
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        m = None if fenced else HEADING.match(line)
        if m:
            depth = len(m[1]) - 2
            out.append(f"{'  ' * depth}- [{m[2]}](#{slugify(m[2], used)})")
    return "\n".join(out)


def main():
    for path in sys.argv[1:]:
        text = open(path, encoding="utf-8").read()
        if START not in text:
            print(f"{path}: no {START} marker")
            continue
        block = f"{START}\n\n{toc(text.splitlines())}\n\n{END}"
        if END in text:
            new = re.sub(re.escape(START) + r".*?" + re.escape(END), lambda _: block, text, flags=re.S)
        else:
            new = text.replace(START, block)
        if new != text:
            open(path, "w", encoding="utf-8").write(new)
            print(f"{path}: updated")


if __name__ == "__main__":
    main()
