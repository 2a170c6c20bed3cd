#!/usr/bin/env bash
set -euo pipefail

usage() {
  echo "usage: $0 patch|minor|major" >&2
  exit 1
}

[[ $# -eq 1 ]] || usage
case "$1" in
  patch|minor|major) bump="$1" ;;
  *) usage ;;
esac

if [[ -n "$(git status --porcelain)" ]]; then
  echo "Working tree is dirty, commit or stash first." >&2
  exit 1
fi

branch=$(git rev-parse --abbrev-ref HEAD)
if [[ "$branch" != "main" ]]; then
  read -r -p "You are on '$branch', release anyway? [y/N] " answer
  [[ "$answer" =~ ^[Yy]$ ]] || exit 1
fi

git pull --ff-only
npm ci
npm run lint
npm test
npm run build

version=$(npm version "$bump" --no-git-tag-version)
git commit -am "Release $version"
git tag -a "$version" -m "Release $version"
git push origin "$branch" --follow-tags

echo "Released $version"
