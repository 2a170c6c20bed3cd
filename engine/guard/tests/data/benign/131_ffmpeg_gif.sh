#!/usr/bin/env bash
set -euo pipefail

if [[ $# -lt 1 ]]; then
  cat <<EOF
usage: $(basename "$0") VIDEO [START] [DURATION] [WIDTH] [FPS]
example: $(basename "$0") talk.mp4 00:01:05 4 480 12
EOF
  exit 1
fi

video=$1
start=${2:-0}
duration=${3:-5}
width=${4:-480}
fps=${5:-12}
out="${video%.*}.gif"

palette=$(mktemp --suffix .png)
trap 'rm -f "$palette"' EXIT

filters="fps=$fps,scale=$width:-1:flags=lanczos"
ffmpeg -v warning -ss "$start" -t "$duration" -i "$video" -vf "$filters,palettegen=stats_mode=diff" -y "$palette"
ffmpeg -v warning -ss "$start" -t "$duration" -i "$video" -i "$palette" \
  -lavfi "$filters [x]; [x][1:v] paletteuse=dither=bayer:bayer_scale=3" -y "$out"

echo "$out ($(du -h "$out" | cut -f1))"
