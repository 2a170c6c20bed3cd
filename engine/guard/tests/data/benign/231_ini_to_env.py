import argparse
import configparser
import re
import sys


def env_name(section, key, prefix):
    parts = [prefix] if prefix else []
    if section.lower() != "default":
        parts.append(section)
    parts.append(key)
    return re.sub(r"\W+", "_", "_".join(parts)).upper()


def quote(value):
    if re.search(r"[\s#\"'$]", value):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$") + '"'
    return value


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("ini")
    ap.add_argument("--prefix", default="")
    ap.add_argument("--format", choices=["env", "compose", "export"], default="env")
    args = ap.parse_args()

    cp = configparser.ConfigParser(interpolation=None)
    if not cp.read(args.ini):
        sys.exit(f"cannot read {args.ini}")
    for section in cp.sections():
        for key, value in cp.items(section):
            name = env_name(section, key, args.prefix)
            value = value.replace("\n", " ")
            if args.format == "env":
                print(f"{name}={quote(value)}")
            elif args.format == "export":
                print(f"export {name}={quote(value)}")
            else:
                print(f"      {name}: {quote(value)}")


if __name__ == "__main__":
    main()
