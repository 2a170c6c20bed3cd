"""Open a Python shell with the application context, like `flask shell`."""
import argparse
import code
import importlib
import rlcompleter
import sys

try:
    import readline
except ImportError:
    readline = None

PRELOAD = {
    "settings": "app.config:settings",
    "db": "app.db:session",
    "User": "app.models:User",
    "Order": "app.models:Order",
}


def load(spec):
    module, _, attr = spec.partition(":")
    obj = importlib.import_module(module)
    return getattr(obj, attr) if attr else obj


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("-c", "--command", help="run a statement and exit")
    args = ap.parse_args()

    namespace, failed = {}, []
    for name, spec in PRELOAD.items():
        try:
            namespace[name] = load(spec)
        except (ImportError, AttributeError) as e:
            failed.append(f"{name} ({e})")

    if args.command:
        exec(compile(args.command, "<command>", "exec"), namespace)
        return

    if readline:
        readline.set_completer(rlcompleter.Completer(namespace).complete)
        readline.parse_and_bind("tab: complete")
    banner = f"Python {sys.version.split()[0]}\nAvailable: {', '.join(namespace)}"
    if failed:
        banner += f"\nNot loaded: {', '.join(failed)}"
    code.interact(banner=banner, local=namespace, exitmsg="")


if __name__ == "__main__":
    main()
