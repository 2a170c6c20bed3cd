"""Serve a WSGI application and reload changed modules between requests."""
import importlib
import os
import sys
from wsgiref.simple_server import make_server


class Reloader:
    def __init__(self, target, root="."):
        self.module_name, _, self.attr = target.partition(":")
        self.attr = self.attr or "app"
        self.root = os.path.abspath(root)
        sys.path.insert(0, self.root)
        self.module = importlib.import_module(self.module_name)
        self.mtimes = {}
        self.changed()

    def project_modules(self):
        for name, mod in list(sys.modules.items()):
            path = getattr(mod, "__file__", None)
            if path and path.startswith(self.root) and "site-packages" not in path:
                yield name, mod, path

    def changed(self):
        found = []
        for name, mod, path in self.project_modules():
            try:
                mtime = os.stat(path).st_mtime
            except OSError:
                continue
            if self.mtimes.get(path, mtime) != mtime:
                found.append(mod)
            self.mtimes[path] = mtime
        return found

    def __call__(self, environ, start_response):
        for mod in self.changed():
            if mod.__name__ == "__main__":
                continue
            print("reloading", mod.__name__)
            importlib.reload(mod)
        self.module = importlib.reload(self.module) if self.changed() else sys.modules[self.module_name]
        return getattr(self.module, self.attr)(environ, start_response)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: hot_reload_server.py module:app [port]")
    port = int(sys.argv[2]) if len(sys.argv) > 2 else 8000
    with make_server("127.0.0.1", port, Reloader(sys.argv[1])) as server:
        print(f"http://127.0.0.1:{port}")
        server.serve_forever()
