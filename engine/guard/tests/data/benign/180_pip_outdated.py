import json
import subprocess
import sys


def outdated():
    out = subprocess.check_output([sys.executable, "-m", "pip", "list", "--outdated", "--format=json"])
    return json.loads(out)


def upgrade(name):
    subprocess.check_call([sys.executable, "-m", "pip", "install", "--upgrade", name])


def main():
    packages = outdated()
    if not packages:
        print("Everything is up to date.")
        return
    print(f"{len(packages)} outdated packages\n")
    for p in packages:
        major = p["version"].split(".")[0] != p["latest_version"].split(".")[0]
        mark = " (major update!)" if major else ""
        answer = input(f"{p['name']}: {p['version']} -> {p['latest_version']}{mark}  upgrade? [y/N/q] ").lower()
        if answer == "q":
            break
        if answer == "y":
            try:
                upgrade(p["name"])
            except subprocess.CalledProcessError as e:
                print(f"pip failed with {e.returncode}")


if __name__ == "__main__":
    main()
