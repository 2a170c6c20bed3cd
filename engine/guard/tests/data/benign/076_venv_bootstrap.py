#!/usr/bin/env python3
"""Bootstrap a virtual environment and re-run the application inside of it."""
import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
VENV = HERE / ".venv"
REQ = HERE / "requirements.txt"
STAMP = VENV / ".requirements.sha256"


def venv_python():
    return VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def ensure():
    if not venv_python().exists():
        print("creating virtual environment")
        venv.create(VENV, with_pip=True)
    digest = hashlib.sha256(REQ.read_bytes()).hexdigest() if REQ.exists() else ""
    if digest and (not STAMP.exists() or STAMP.read_text() != digest):
        subprocess.check_call([str(venv_python()), "-m", "pip", "install", "--upgrade", "pip"])
        subprocess.check_call([str(venv_python()), "-m", "pip", "install", "-r", str(REQ)])
        STAMP.write_text(digest)


def main():
    ensure()
    args = [str(venv_python()), "-m", "app", *sys.argv[1:]]
    if os.name == "nt":
        sys.exit(subprocess.call(args))
    os.execv(args[0], args)


if __name__ == "__main__":
    main()
