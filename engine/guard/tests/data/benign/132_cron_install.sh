#!/bin/bash
# Installs the crontab entries of this project for the current user (idempotent).
set -euo pipefail

PROJECT_DIR="$(cd "$(dirname "$0")/.." && pwd)"
LOG_DIR="$PROJECT_DIR/logs"
mkdir -p "$LOG_DIR"

BEGIN="# BEGIN myproject"
END="# END myproject"

entries=$(cat <<EOF
$BEGIN
MAILTO=""
30 2 * * * $PROJECT_DIR/scripts/backup.sh >> $LOG_DIR/backup.log 2>&1
0 7 * * 1 $PROJECT_DIR/.venv/bin/python $PROJECT_DIR/scripts/weekly_report.py >> $LOG_DIR/report.log 2>&1
*/15 * * * * $PROJECT_DIR/scripts/healthcheck.sh
$END
EOF
)

current=$(crontab -l 2>/dev/null | sed "/^$BEGIN\$/,/^$END\$/d" || true)

if [[ "${1:-}" == "--uninstall" ]]; then
  printf '%s\n' "$current" | crontab -
  echo "removed"
else
  printf '%s\n%s\n' "$current" "$entries" | crontab -
  echo "installed:"
  crontab -l
fi
