#!/bin/bash
# Usage: find_large_files.sh [dir] [count] [min size]

dir=${1:-/}
count=${2:-20}
min=${3:-50M}

find "$dir" -xdev -type f -size +"$min" -printf '%s\t%TY-%Tm-%Td\t%p\n' 2>/dev/null |
  sort -rn |
  head -n "$count" |
  awk -F'\t' '{
    size = $1; unit = "B"
    split("K M G T", u, " ")
    for (i = 1; size >= 1024 && i <= 4; i++) { size /= 1024; unit = u[i] }
    printf "%8.1f%s  %s  %s\n", size, unit, $2, $3
  }'
