"""Remove build artifacts from a Python project."""
import shutil
import sys
from pathlib import Path

DIRS = ["build", "dist", ".pytest_cache", ".mypy_cache", ".ruff_cache", "htmlcov"]
PATTERNS = ["**/__pycache__", "**/*.egg-info"]


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    elif path.exists():
        path.unlink()
    print(f"removed {path}")


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path.cwd()
    if not (root / "pyproject.toml").exists() and not (root / "setup.py").exists():
        print(f"{root} does not look like a Python project, aborting", file=sys.stderr)
        return 1
    for name in DIRS:
        target = root / name
        if target.exists():
            remove(target)
    for pattern in PATTERNS:
        for path in list(root.glob(pattern)):
            if ".venv" in path.parts or "node_modules" in path.parts:
                continue
            remove(path)
    for pyc in root.rglob("*.pyc"):
        pyc.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
