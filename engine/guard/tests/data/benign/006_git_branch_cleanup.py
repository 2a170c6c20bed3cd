"""Delete local branches that have been merged into the main branch."""
import argparse
import subprocess

PROTECTED = {"main", "master", "develop", "staging"}


def git(*args):
    return subprocess.run(["git", *args], check=True, capture_output=True, text=True).stdout


def merged_branches(base):
    for line in git("branch", "--merged", base).splitlines():
        name = line.strip()
        if name.startswith("*") or name.startswith("+"):
            continue
        if name not in PROTECTED:
            yield name


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", default="main")
    parser.add_argument("--remote", action="store_true", help="also delete on origin")
    parser.add_argument("-n", "--dry-run", action="store_true")
    args = parser.parse_args()

    git("fetch", "--prune")
    branches = list(merged_branches(args.base))
    if not branches:
        print("Nothing to clean up.")
        return
    for branch in branches:
        if args.dry_run:
            print(f"would delete {branch}")
            continue
        git("branch", "-d", branch)
        print(f"deleted {branch}")
        if args.remote:
            try:
                git("push", "origin", "--delete", branch)
            except subprocess.CalledProcessError as exc:
                print(f"  remote delete failed: {exc.stderr.strip()}")


if __name__ == "__main__":
    main()
