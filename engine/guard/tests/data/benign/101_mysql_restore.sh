#!/usr/bin/env bash
set -euo pipefail

DB="${1:-shop_dev}"
DUMP_DIR="${DUMP_DIR:-$HOME/dumps}"

if [[ "$DB" == *prod* ]]; then
  echo "Refusing to restore into a production database." >&2
  exit 1
fi

latest=$(ls -t "$DUMP_DIR"/*.sql.gz 2>/dev/null | head -n1 || true)
if [[ -z "$latest" ]]; then
  echo "No dumps in $DUMP_DIR" >&2
  exit 1
fi

echo "Restoring $(basename "$latest") into $DB"
read -rp "This drops the existing database '$DB'. Continue? [y/N] " yn
[[ $yn == [Yy]* ]] || exit 0

mysql -e "DROP DATABASE IF EXISTS \`$DB\`; CREATE DATABASE \`$DB\` CHARACTER SET utf8mb4;"
if command -v pv >/dev/null; then
  pv "$latest" | gunzip | mysql "$DB"
else
  gunzip -c "$latest" | mysql "$DB"
fi

# anonymise
mysql "$DB" <<'SQL'
UPDATE customers SET email = CONCAT('user', id, '@example.test'), phone = NULL;
DELETE FROM sessions WHERE 1;
SQL

mysql -N -e "SELECT table_name, table_rows FROM information_schema.tables WHERE table_schema='$DB' ORDER BY 2 DESC LIMIT 10"
