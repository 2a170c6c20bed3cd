#!/usr/bin/env bash
# usage: wait_for_it.sh host:port [-t seconds] [-- command args]

set -u
timeout=30
hostport="${1:?host:port expected}"
shift
host="${hostport%%:*}"
port="${hostport##*:}"

while [[ $# -gt 0 ]]; do
  case "$1" in
    -t) timeout="$2"; shift 2 ;;
    --) shift; break ;;
    *) echo "unknown option $1" >&2; exit 2 ;;
  esac
done

start=$SECONDS
until (exec 3<>"/dev/tcp/$host/$port") 2>/dev/null; do
  if (( SECONDS - start >= timeout )); then
    echo "timeout after ${timeout}s waiting for $host:$port" >&2
    exit 1
  fi
  sleep 1
done
echo "$host:$port is up after $((SECONDS - start))s"

if [[ $# -gt 0 ]]; then
  exec "$@"
fi
