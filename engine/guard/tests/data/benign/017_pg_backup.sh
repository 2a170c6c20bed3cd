#!/bin/bash
# Nightly Postgres backup.
# crontab: 0 3 * * * /usr/local/bin/pg_backup.sh >> /var/log/pg_backup.log 2>&1

set -euo pipefail

DB_NAME="${DB_NAME:-app_production}"
DB_USER="${DB_USER:-postgres}"
DB_HOST="${DB_HOST:-localhost}"
BACKUP_DIR="${BACKUP_DIR:-/var/backups/postgres}"
RETENTION_DAYS="${RETENTION_DAYS:-14}"

timestamp=$(date +%Y-%m-%d_%H%M%S)
outfile="$BACKUP_DIR/${DB_NAME}_${timestamp}.dump"

mkdir -p "$BACKUP_DIR"
chmod 700 "$BACKUP_DIR"

echo "[$(date -Is)] starting backup of $DB_NAME"
# the password comes from ~/.pgpass
if pg_dump -h "$DB_HOST" -U "$DB_USER" -Fc "$DB_NAME" > "$outfile.part"; then
  mv "$outfile.part" "$outfile"
  sha256sum "$outfile" > "$outfile.sha256"
else
  rm -f "$outfile.part"
  echo "[$(date -Is)] backup FAILED" >&2
  exit 1
fi

# verify the archive is readable
pg_restore --list "$outfile" > /dev/null

find "$BACKUP_DIR" -name "${DB_NAME}_*.dump*" -type f -mtime +"$RETENTION_DAYS" -print -delete
echo "[$(date -Is)] done: $(du -h "$outfile" | cut -f1)"
