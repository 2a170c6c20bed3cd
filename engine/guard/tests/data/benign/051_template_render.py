"""Tiny template engine that compiles a template to a Python function.

Templates are trusted input (they come from our own repository).
"""
import html
import re

TOKEN = re.compile(r"({{.*?}}|{%.*?%})", re.S)


class Template:
    def __init__(self, source: str):
        self.source = source
        self.code = self._compile(source)
        namespace = {"escape": html.escape}
        exec(compile(self.code, "<template>", "exec"), namespace)
        self._render = namespace["render"]

    def _compile(self, source):
        lines = ["def render(ctx):", "    out = []", "    locals_ = dict(ctx)"]
        indent = 1

        def emit(line):
            lines.append("    " * indent + line)

        for token in TOKEN.split(source):
            if not token:
                continue
            if token.startswith("{{"):
                emit(f"out.append(escape(str(eval({token[2:-2].strip()!r}, {{}}, locals_))))")
            elif token.startswith("{%"):
                words = token[2:-2].split(None, 1)
                if words[0] == "for":
                    var, _, seq = words[1].partition(" in ")
                    emit(f"for item_ in eval({seq.strip()!r}, {{}}, locals_):")
                    indent += 1
                    emit(f"locals_[{var.strip()!r}] = item_")
                elif words[0] == "if":
                    emit(f"if eval({words[1].strip()!r}, {{}}, locals_):")
                    indent += 1
                elif words[0] in ("endfor", "endif"):
                    indent -= 1
                else:
                    raise SyntaxError(f"unknown tag {words[0]}")
            else:
                emit(f"out.append({token!r})")
        lines.append("    return ''.join(out)")
        return "\n".join(lines)

    def render(self, **ctx):
        return self._render(ctx)


if __name__ == "__main__":
    t = Template("<ul>{% for u in users %}<li>{{ u['name'].title() }}{% if u['admin'] %} *{% endif %}</li>{% endfor %}</ul>")
    print(t.render(users=[{"name": "ada", "admin": True}, {"name": "grace <x>", "admin": False}]))
