#!/usr/bin/env bash
# Task runner: ./do TASK [ARGS]
set -euo pipefail
cd "$(dirname "$0")"

export PYTHONPATH=src

task_install() { # install dependencies
  python3 -m venv .venv
  .venv/bin/pip install -U pip
  .venv/bin/pip install -e '.[dev]'
}

task_test() { # run the tests
  .venv/bin/pytest -q "$@"
}

task_lint() { # run ruff and mypy
  .venv/bin/ruff check src tests
  .venv/bin/mypy src
}

task_clean() { # remove build products
  rm -rf build dist .pytest_cache .mypy_cache .ruff_cache
  find . -path ./.venv -prune -o -name '__pycache__' -type d -print0 | xargs -0 rm -rf
}

task_all() { # lint, test and build
  task_lint
  task_test
  .venv/bin/python -m build
}

help() {
  echo "Tasks:"
  sed -n 's/^task_\([a-z_]*\)() { # \(.*\)$/  \1\t\2/p' "$0" | expand -t 14
}

name="${1:-help}"
shift || true
if [[ "$name" == help ]]; then
  help
elif declare -F "task_$name" >/dev/null; then
  "task_$name" "$@"
else
  echo "unknown task: $name" >&2
  help
  exit 1
fi
