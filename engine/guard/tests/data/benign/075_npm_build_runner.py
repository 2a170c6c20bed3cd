import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
PACKAGES = ROOT / "packages"


def has_script(pkg, name):
    data = json.loads((pkg / "package.json").read_text())
    return name in data.get("scripts", {})


def run(cmd, cwd):
    print(f"[{cwd.name}] {cmd}")
    return subprocess.call(cmd, cwd=cwd, shell=True)


def main():
    only = set(sys.argv[1:])
    failed = []
    for pkg in sorted(PACKAGES.iterdir()):
        if not (pkg / "package.json").is_file():
            continue
        if only and pkg.name not in only:
            continue
        install = "npm ci" if (pkg / "package-lock.json").exists() else "npm install"
        if run(install, pkg) != 0:
            failed.append(pkg.name)
            continue
        if has_script(pkg, "build") and run("npm run build", pkg) != 0:
            failed.append(pkg.name)
    if failed:
        print("failed:", ", ".join(failed))
        sys.exit(1)


if __name__ == "__main__":
    main()
