#!/usr/bin/env python3
"""Generate a simple requests based client from an OpenAPI 3 document."""
import argparse
import re
import sys
from pathlib import Path

import yaml

HEADER = '''"""Generated from {source}. Do not edit."""
import requests


class Client:
    def __init__(self, base_url={base!r}, token=None):
        self.base_url = base_url.rstrip("/")
        self.session = requests.Session()
        if token:
            self.session.headers["Authorization"] = f"Bearer {{token}}"

    def _call(self, method, path, **kwargs):
        resp = self.session.request(method, self.base_url + path, timeout=30, **kwargs)
        resp.raise_for_status()
        return resp.json() if resp.content else None
'''


def snake(name):
    name = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name)
    return re.sub(r"\W+", "_", name).strip("_").lower()


def method_source(path, verb, op):
    name = snake(op.get("operationId") or f"{verb}_{path}")
    params = op.get("parameters", [])
    path_args = [snake(p["name"]) for p in params if p["in"] == "path"]
    query = [(snake(p["name"]), p["name"]) for p in params if p["in"] == "query"]
    sig = ["self", *path_args]
    if "requestBody" in op:
        sig.append("body")
    sig += [f"{q}=None" for q, _ in query]
    url = re.sub(r"{(\w+)}", lambda m: "{" + snake(m[1]) + "}", path)
    lines = [f"    def {name}({', '.join(sig)}):"]
    if op.get("summary"):
        lines.append(f'        """{op["summary"]}"""')
    call = [repr(verb.upper()), f'f"{url}"' if path_args else repr(url)]
    if query:
        pairs = ", ".join(f"{orig!r}: {q}" for q, orig in query)
        lines.append(f"        params = {{k: v for k, v in {{{pairs}}}.items() if v is not None}}")
        call.append("params=params")
    if "requestBody" in op:
        call.append("json=body")
    lines.append(f"        return self._call({', '.join(call)})")
    return "\n".join(lines)


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("spec", type=Path)
    ap.add_argument("-o", "--output", type=Path)
    args = ap.parse_args()
    spec = yaml.safe_load(args.spec.read_text())
    base = (spec.get("servers") or [{"url": "http://localhost"}])[0]["url"]
    parts = [HEADER.format(source=args.spec.name, base=base)]
    for path, item in spec["paths"].items():
        for verb in ("get", "post", "put", "patch", "delete"):
            if verb in item:
                parts.append(method_source(path, verb, item[verb]))
    code = "\n\n".join(parts) + "\n"
    compile(code, "<generated>", "exec")  # make sure that it is valid Python
    args.output.write_text(code) if args.output else sys.stdout.write(code)


if __name__ == "__main__":
    main()
