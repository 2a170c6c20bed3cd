#!/usr/bin/env bash
set -euo pipefail

DOTFILES="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
BACKUP="$HOME/.dotfiles_backup/$(date +%Y%m%d%H%M%S)"
FILES=(.bashrc .vimrc .tmux.conf .gitconfig .config/nvim .config/alacritty)

link() {
  local src="$DOTFILES/$1" dst="$HOME/$1"
  if [[ -L "$dst" && "$(readlink "$dst")" == "$src" ]]; then
    echo "ok      $1"
    return
  fi
  if [[ -e "$dst" || -L "$dst" ]]; then
    mkdir -p "$BACKUP/$(dirname "$1")"
    mv "$dst" "$BACKUP/$1"
    echo "backup  $1"
  fi
  mkdir -p "$(dirname "$dst")"
  ln -s "$src" "$dst"
  echo "link    $1"
}

for f in "${FILES[@]}"; do
  link "$f"
done

if ! grep -q 'dotfiles/aliases.sh' "$HOME/.bashrc"; then
  echo "[ -f $DOTFILES/aliases.sh ] && . $DOTFILES/aliases.sh" >> "$HOME/.bashrc"
fi
