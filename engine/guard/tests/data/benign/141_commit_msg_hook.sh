#!/usr/bin/env bash
# .git/hooks/commit-msg
file="$1"
subject=$(head -n1 "$file")

if [[ "$subject" =~ ^(Merge|Revert|fixup!|squash!) ]]; then
  exit 0
fi

pattern='^(feat|fix|docs|style|refactor|perf|test|build|ci|chore)(\([a-z0-9_-]+\))?!?: .{3,}'
if ! [[ "$subject" =~ $pattern ]]; then
  cat >&2 <<EOF
Bad commit message:
    $subject
Expected something like:
    feat(api): add pagination
EOF
  exit 1
fi

if (( ${#subject} > 72 )); then
  echo "Subject is ${#subject} characters long, the limit is 72." >&2
  exit 1
fi

branch=$(git symbolic-ref --short HEAD 2>/dev/null)
if [[ "$branch" =~ ([A-Z]{2,}-[0-9]+) ]]; then
  ticket="${BASH_REMATCH[1]}"
  grep -q "$ticket" "$file" || printf '\nRefs: %s\n' "$ticket" >> "$file"
fi
