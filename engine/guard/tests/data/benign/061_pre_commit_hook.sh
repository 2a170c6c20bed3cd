#!/bin/sh
# Git pre-commit hook. Install with:
#   cp pre_commit_hook.sh .git/hooks/pre-commit && chmod +x .git/hooks/pre-commit

MAX_KB=500
fail=0

files=$(git diff --cached --name-only --diff-filter=ACM)
[ -z "$files" ] && exit 0

for f in $files; do
    size=$(git cat-file -s ":$f")
    if [ "$size" -gt $((MAX_KB * 1024)) ]; then
        echo "error: $f is larger than ${MAX_KB}kB"
        fail=1
    fi
    case "$f" in
        *.py)
            if git show ":$f" | grep -nE '^\s*(import pdb|breakpoint\(\)|pdb\.set_trace\(\))'; then
                echo "error: debug statement in $f"
                fail=1
            fi
            ;;
        *.js|*.ts)
            if git show ":$f" | grep -nE 'console\.log|debugger;'; then
                echo "warning: console.log in $f"
            fi
            ;;
    esac
done

if git diff --cached | grep -qE '^\+.*(AWS_SECRET_ACCESS_KEY|BEGIN (RSA|OPENSSH) PRIVATE KEY)'; then
    echo "error: this commit seems to contain a secret"
    fail=1
fi

py_files=$(echo "$files" | grep '\.py$')
if [ -n "$py_files" ]; then
    black --check --quiet $py_files || { echo "error: run black first"; fail=1; }
fi

exit $fail
