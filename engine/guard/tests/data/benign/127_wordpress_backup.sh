#!/bin/bash
set -euo pipefail

SITE_DIR=/var/www/wordpress
REMOTE="${RCLONE_REMOTE:-b2:site-backups}"
KEEP_DAYS=30
STAMP=$(date +%F)
TMP=$(mktemp -d /tmp/wpbackup.XXXXXX)
trap 'rm -rf "$TMP"' EXIT

cfg() { sed -n "s/^define( *'$1', *'\(.*\)' *);/\1/p" "$SITE_DIR/wp-config.php"; }

cat > "$TMP/my.cnf" <<EOF
[client]
user=$(cfg DB_USER)
password=$(cfg DB_PASSWORD)
host=$(cfg DB_HOST)
EOF
chmod 600 "$TMP/my.cnf"

mysqldump --defaults-extra-file="$TMP/my.cnf" --single-transaction "$(cfg DB_NAME)" | gzip > "$TMP/database.sql.gz"
rm "$TMP/my.cnf"

tar -czf "$TMP/site-$STAMP.tar.gz" \
    --exclude='wp-content/cache' \
    -C "$(dirname $SITE_DIR)" "$(basename $SITE_DIR)" \
    -C "$TMP" database.sql.gz

rclone copy "$TMP/site-$STAMP.tar.gz" "$REMOTE/"
rclone delete --min-age "${KEEP_DAYS}d" "$REMOTE/"
echo "backup site-$STAMP.tar.gz uploaded"
