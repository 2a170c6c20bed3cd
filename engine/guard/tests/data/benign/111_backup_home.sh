#!/usr/bin/env bash
set -euo pipefail

SRC="$HOME/"
DEST="${1:-/mnt/backup/home}"
KEEP=10

if ! mountpoint -q "$(dirname "$DEST")"; then
  echo "backup drive is not mounted at $(dirname "$DEST")" >&2
  exit 1
fi

mkdir -p "$DEST"
now=$(date +%Y-%m-%dT%H-%M-%S)
link_dest=()
[[ -e "$DEST/latest" ]] && link_dest=(--link-dest="$DEST/latest")

rsync -aH --delete --info=stats1 \
  --exclude='.cache/' --exclude='node_modules/' --exclude='.local/share/Trash/' \
  "${link_dest[@]}" "$SRC" "$DEST/$now.incomplete/"

mv "$DEST/$now.incomplete" "$DEST/$now"
ln -sfn "$now" "$DEST/latest"

# prune
mapfile -t snapshots < <(find "$DEST" -mindepth 1 -maxdepth 1 -type d -name '20*' | sort)
count=${#snapshots[@]}
for ((i = 0; i < count - KEEP; i++)); do
  echo "removing ${snapshots[i]}"
  rm -rf -- "${snapshots[i]}"
done
