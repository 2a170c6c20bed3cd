#!/usr/bin/env bash
set -euo pipefail

confirm() {
  [[ "${YES:-0}" == "1" ]] && return 0
  read -r -p "$1 [y/N] " reply
  [[ "$reply" == [yY] ]]
}

if ! docker info >/dev/null 2>&1; then
  echo "Docker daemon is not running" >&2
  exit 1
fi

echo "Before:"
docker system df

if confirm "Remove stopped containers?"; then
  docker container prune -f
fi

if confirm "Remove dangling images?"; then
  docker image prune -f
fi

if confirm "Remove images unused for 30 days?"; then
  docker image prune -a -f --filter "until=720h"
fi

if confirm "Remove unused volumes (data will be lost)?"; then
  docker volume prune -f
fi

docker builder prune -f --keep-storage 5GB

echo
echo "After:"
docker system df
