#!/usr/bin/env bash
TODO_FILE="${TODO_FILE:-$HOME/.todo.txt}"
touch "$TODO_FILE"

add()  { echo "[ ] $*" >> "$TODO_FILE"; echo "added: $*"; }
list() { nl -w2 -s'. ' "$TODO_FILE"; }
finish() { sed -i "${1}s/^\[ \]/[x]/" "$TODO_FILE"; list; }
remove() { sed -i "${1}d" "$TODO_FILE"; list; }
clean() { grep -v '^\[x\]' "$TODO_FILE" > "$TODO_FILE.tmp"; mv "$TODO_FILE.tmp" "$TODO_FILE"; list; }

number() {
  if ! [[ "$1" =~ ^[0-9]+$ ]] || (( $1 < 1 || $1 > $(wc -l < "$TODO_FILE") )); then
    echo "not a valid number: $1" >&2
    exit 1
  fi
}

case "${1:-list}" in
  add) shift; add "$@" ;;
  ls|list) list ;;
  done) number "$2"; finish "$2" ;;
  rm) number "$2"; remove "$2" ;;
  clean) clean ;;
  *) echo "usage: $0 [add TEXT | list | done N | rm N | clean]" ;;
esac
