#!/bin/bash

BASE=${1:-$HOME/code}
export RED=$'\e[31m' GREEN=$'\e[32m' YELLOW=$'\e[33m' RESET=$'\e[0m'

update() {
    repo=$1
    name=$(basename "$repo")
    cd "$repo" || exit
    if [ -n "$(git status --porcelain)" ]; then
        echo "${YELLOW}dirty   ${RESET} $name"
        return
    fi
    if ! git remote | grep -q .; then
        echo "no remote $name"
        return
    fi
    before=$(git rev-parse HEAD)
    if ! out=$(git pull --ff-only --quiet 2>&1); then
        echo "${RED}failed  ${RESET} $name: $(echo "$out" | head -1)"
        return
    fi
    after=$(git rev-parse HEAD)
    if [ "$before" = "$after" ]; then
        echo "current  $name"
    else
        echo "${GREEN}updated ${RESET} $name ($(git rev-list --count "$before..$after") commits)"
    fi
}
export -f update

find "$BASE" -maxdepth 3 -name .git -type d -prune -printf '%h\0' | xargs -0 -P 6 -I{} bash -c 'update "$1"' _ {}
