#!/usr/bin/env bash
# usage: bench_compare.sh N 'command a' 'command b'
set -eu

n=$1
shift

for cmd in "$@"; do
  times=()
  eval "$cmd" >/dev/null 2>&1 || { echo "command failed: $cmd" >&2; exit 1; }
  for ((i = 0; i < n; i++)); do
    start=$(date +%s%N)
    eval "$cmd" >/dev/null 2>&1
    end=$(date +%s%N)
    times+=($(((end - start) / 1000)))
  done
  printf '%s\n' "${times[@]}" | sort -n | awk -v cmd="$cmd" '
    { a[NR] = $1; sum += $1 }
    END {
      printf "%-30s min %.1fms  mean %.1fms  median %.1fms  max %.1fms\n",
        cmd, a[1] / 1000, sum / NR / 1000, a[int((NR + 1) / 2)] / 1000, a[NR] / 1000
    }'
done
