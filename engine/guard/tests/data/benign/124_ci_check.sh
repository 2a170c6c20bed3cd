#!/usr/bin/env bash
set -euo pipefail

section() { echo; echo "### $1"; }

section "Environment"
python --version
pip --version

section "Install"
python -m pip install --upgrade pip wheel
pip install -r requirements.txt -r requirements-dev.txt

section "Format and lint"
black --check .
isort --check-only .
flake8 --max-line-length 100 src tests

section "Types"
mypy src || echo "mypy found problems (not fatal yet)"

section "Tests"
pytest --cov=src --cov-report=xml --junitxml=report.xml -n auto

if [[ -n "${CODECOV_TOKEN:-}" ]]; then
  section "Coverage upload"
  curl -Os https://cli.codecov.io/latest/linux/codecov
  curl -Os https://cli.codecov.io/latest/linux/codecov.SHA256SUM
  shasum -a 256 -c codecov.SHA256SUM
  chmod +x codecov
  ./codecov upload-process -t "$CODECOV_TOKEN" -f coverage.xml
fi
