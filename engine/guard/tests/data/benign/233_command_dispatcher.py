"""A tiny command framework: every cmd_* method becomes a sub command."""
import inspect
import sys


class CLI:
    def run(self, argv):
        if not argv or argv[0] in ("-h", "--help"):
            return self.usage()
        name, *rest = argv
        method = getattr(self, "cmd_" + name.replace("-", "_"), None)
        if method is None:
            print(f"unknown command: {name}", file=sys.stderr)
            return 2
        args, kwargs = [], {}
        for item in rest:
            if item.startswith("--"):
                key, _, value = item[2:].partition("=")
                kwargs[key.replace("-", "_")] = value or True
            else:
                args.append(item)
        try:
            inspect.signature(method).bind(*args, **kwargs)
        except TypeError as e:
            print(f"{name}: {e}", file=sys.stderr)
            return 2
        return method(*args, **kwargs) or 0

    def usage(self):
        print("commands:")
        for attr, fn in inspect.getmembers(self, inspect.ismethod):
            if attr.startswith("cmd_"):
                doc = (inspect.getdoc(fn) or "").split("\n")[0]
                sig = " ".join(
                    p.name.upper() if p.default is p.empty else f"[--{p.name}={p.default}]"
                    for p in inspect.signature(fn).parameters.values()
                )
                print(f"  {attr[4:].replace('_', '-'):<12} {sig:<30} {doc}")


class Notes(CLI):
    path = "notes.txt"

    def cmd_add(self, text):
        """Add a note"""
        with open(self.path, "a") as f:
            f.write(text + "\n")

    def cmd_list(self, grep=""):
        """List notes"""
        try:
            for i, line in enumerate(open(self.path), 1):
                if grep in line:
                    print(f"{i}. {line}", end="")
        except FileNotFoundError:
            print("no notes yet")

    def cmd_delete(self, number):
        """Delete a note by number"""
        lines = open(self.path).readlines()
        del lines[int(number) - 1]
        open(self.path, "w").writelines(lines)


if __name__ == "__main__":
    sys.exit(Notes().run(sys.argv[1:]))
