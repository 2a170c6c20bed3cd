"""Install the project's git hooks."""
import stat
import subprocess
import sys
from pathlib import Path

HOOKS = ["pre-commit", "commit-msg", "pre-push"]


def hooks_dir():
    out = subprocess.check_output(["git", "rev-parse", "--git-path", "hooks"], text=True).strip()
    return Path(out)


def main():
    source = Path(__file__).resolve().parent / "hooks"
    try:
        target = hooks_dir()
    except subprocess.CalledProcessError:
        sys.exit("not inside a git repository")
    target.mkdir(parents=True, exist_ok=True)
    for name in HOOKS:
        src, dst = source / name, target / name
        if not src.exists():
            continue
        content = src.read_bytes()
        if dst.exists():
            if dst.read_bytes() == content:
                print(f"{name}: up to date")
                continue
            backup = dst.with_name(name + ".bak")
            dst.replace(backup)
            print(f"{name}: old hook saved as {backup.name}")
        dst.write_bytes(content)
        dst.chmod(dst.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        print(f"{name}: installed")


if __name__ == "__main__":
    main()
