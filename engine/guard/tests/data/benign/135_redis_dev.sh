#!/usr/bin/env bash
set -euo pipefail

PG=test-postgres
REDIS=test-redis

start() {
  docker run -d --rm --name $PG -p 55432:5432 \
    -e POSTGRES_USER=test -e POSTGRES_PASSWORD=test -e POSTGRES_DB=test \
    --tmpfs /var/lib/postgresql/data postgres:16-alpine >/dev/null
  docker run -d --rm --name $REDIS -p 56379:6379 redis:7-alpine >/dev/null

  for _ in {1..30}; do
    docker exec $PG pg_isready -U test -q && break
    sleep 0.5
  done
  echo "export DATABASE_URL=postgresql://test:test@localhost:55432/test"
  echo "export REDIS_URL=redis://localhost:56379/0"
}

stop() {
  docker rm -f $PG $REDIS >/dev/null 2>&1 || true
}

case "${1:-}" in
  start) stop; start ;;
  stop) stop ;;
  run)
    shift
    trap stop EXIT
    stop
    eval "$(start)"
    "$@"
    ;;
  *) echo "usage: $0 start|stop|run COMMAND..." >&2; exit 1 ;;
esac
