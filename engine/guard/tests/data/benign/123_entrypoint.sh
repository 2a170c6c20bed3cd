#!/bin/sh
set -e

: "${DB_HOST:=db}"
: "${DB_PORT:=5432}"

echo "Waiting for $DB_HOST:$DB_PORT"
i=0
while ! nc -z "$DB_HOST" "$DB_PORT"; do
  i=$((i + 1))
  if [ "$i" -gt 60 ]; then
    echo "database never came up" >&2
    exit 1
  fi
  sleep 1
done

if [ "$1" = "gunicorn" ]; then
  python manage.py migrate --noinput
  python manage.py collectstatic --noinput --clear
  if [ -n "$DJANGO_SUPERUSER_USERNAME" ]; then
    python manage.py createsuperuser --noinput 2>/dev/null || true
  fi
fi

# drop privileges when started as root
if [ "$(id -u)" = "0" ]; then
  chown -R app:app /app/media
  exec gosu app "$@"
fi

exec "$@"
