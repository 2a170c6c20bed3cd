import argparse
import contextlib
import shutil
import subprocess
import tempfile
from pathlib import Path


@contextlib.contextmanager
def workspace(prefix="work-", keep=False):
    path = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        yield path
    finally:
        if keep:
            print(f"kept workspace: {path}")
        else:
            shutil.rmtree(path, ignore_errors=True)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("repo", help="git url to build")
    ap.add_argument("--keep", action="store_true")
    args = ap.parse_args()

    with workspace("build-", args.keep) as ws:
        subprocess.check_call(["git", "clone", "--depth", "1", args.repo, str(ws / "src")])
        subprocess.check_call(["make"], cwd=ws / "src")
        out = Path("artifacts")
        out.mkdir(exist_ok=True)
        for f in (ws / "src" / "bin").glob("*"):
            shutil.copy2(f, out)
            print("copied", f.name)


if __name__ == "__main__":
    main()
