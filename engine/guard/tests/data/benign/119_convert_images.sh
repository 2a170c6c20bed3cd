#!/usr/bin/env bash
set -euo pipefail
shopt -s nullglob nocaseglob

src="${1:-.}"
dst="${2:-$src/resized}"
max=1600

command -v convert >/dev/null || { echo "please install imagemagick" >&2; exit 1; }
mkdir -p "$dst"

before=0
after=0
for f in "$src"/*.jpg "$src"/*.jpeg; do
  out="$dst/$(basename "$f")"
  convert "$f" -auto-orient -resize "${max}x${max}>" -strip -quality 82 "$out"
  a=$(stat -c %s "$f")
  b=$(stat -c %s "$out")
  before=$((before + a))
  after=$((after + b))
  printf '%-40s %6dk -> %6dk\n' "$(basename "$f")" $((a / 1024)) $((b / 1024))
done
echo "total: $((before / 1024))k -> $((after / 1024))k"
