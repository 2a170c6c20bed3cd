#!/usr/bin/env bash
set -euo pipefail

usage() { echo "usage: $0 [-y] SEARCH REPLACE [PATHSPEC...]"; exit 1; }

yes=0
[[ "${1:-}" == "-y" ]] && { yes=1; shift; }
[[ $# -ge 2 ]] || usage
search=$1
replace=$2
shift 2

mapfile -t files < <(git grep -lIF -- "$search" "$@" || true)
if [[ ${#files[@]} -eq 0 ]]; then
  echo "no matches"
  exit 0
fi

git --no-pager grep -nIF --color=always -- "$search" "$@"
echo
echo "${#files[@]} files will change: '$search' -> '$replace'"
if (( ! yes )); then
  read -rp "Go on? [y/N] " a
  [[ $a == y ]] || exit 0
fi

esc_search=$(printf '%s' "$search" | sed 's/[][\.*^$/]/\\&/g')
esc_replace=$(printf '%s' "$replace" | sed 's/[&/\]/\\&/g')
sed -i "s/$esc_search/$esc_replace/g" "${files[@]}"
git --no-pager diff --stat
