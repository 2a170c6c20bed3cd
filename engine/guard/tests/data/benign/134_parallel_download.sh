#!/usr/bin/env bash
set -uo pipefail

list="${1:?usage: $0 urls.txt [dir]}"
dir="${2:-downloads}"
jobs="${JOBS:-4}"
mkdir -p "$dir"

fetch() {
  url=$1
  dir=$2
  name=$(basename "${url%%\?*}")
  if curl -fsSL --retry 4 --retry-delay 2 -C - -o "$dir/$name" "$url"; then
    echo "ok    $name"
  else
    echo "FAIL  $url ($?)"
    return 1
  fi
}
export -f fetch

grep -vE '^\s*(#|$)' "$list" | xargs -P "$jobs" -I{} bash -c 'fetch "$@"' _ {} "$dir"
status=$?

(cd "$dir" && sha256sum -- * > SHA256SUMS)
exit $status
