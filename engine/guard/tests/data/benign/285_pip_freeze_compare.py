import subprocess
import sys


def freeze(venv):
    out = subprocess.check_output([f"{venv}/bin/python", "-m", "pip", "freeze", "--all"], text=True)
    result = {}
    for line in out.splitlines():
        if "==" in line:
            name, version = line.split("==", 1)
        elif " @ " in line:
            name, version = line.split(" @ ", 1)
        else:
            continue
        result[name.lower().replace("_", "-")] = version
    return result


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: pip_freeze_compare.py VENV_A VENV_B")
    a, b = map(freeze, sys.argv[1:])
    for name in sorted(a.keys() | b.keys()):
        va, vb = a.get(name, "-"), b.get(name, "-")
        if va != vb:
            print(f"{name:<30} {va:<20} {vb}")
