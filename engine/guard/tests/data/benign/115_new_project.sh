#!/usr/bin/env bash
set -euo pipefail

name="${1:?usage: new_project.sh NAME}"
pkg="${name//-/_}"

if [[ -e "$name" ]]; then
  echo "$name already exists" >&2
  exit 1
fi

mkdir -p "$name/src/$pkg" "$name/tests"
cd "$name"

cat > pyproject.toml <<EOF
[build-system]
requires = ["setuptools>=68"]
build-backend = "setuptools.build_meta"

[project]
name = "$name"
version = "0.1.0"
requires-python = ">=3.10"

[project.optional-dependencies]
dev = ["pytest", "ruff"]

[tool.pytest.ini_options]
testpaths = ["tests"]
EOF

echo '__version__ = "0.1.0"' > "src/$pkg/__init__.py"
cat > tests/test_version.py <<EOF
from $pkg import __version__


def test_version():
    assert __version__
EOF

printf '%s\n' .venv/ __pycache__/ dist/ build/ '*.egg-info/' .env > .gitignore
echo "# $name" > README.md

git init -q
python3 -m venv .venv
.venv/bin/pip install -q -e '.[dev]'
.venv/bin/pytest -q
git add .
git commit -qm "Initial commit"
echo "Created $name. Activate with: source $name/.venv/bin/activate"
