#!/usr/bin/env bash
set -euo pipefail

# Set up a development machine on Ubuntu 22.04+

if [[ $EUID -eq 0 ]]; then
  echo "Run this as your normal user, sudo is used where needed." >&2
  exit 1
fi

log() { printf '\033[1;34m==>\033[0m %s\n' "$*"; }

log "Updating packages"
sudo apt-get update
sudo apt-get upgrade -y

log "Installing base tools"
sudo apt-get install -y --no-install-recommends \
  build-essential ca-certificates curl git gnupg jq \
  python3 python3-venv python3-pip ripgrep tmux unzip

if ! command -v docker >/dev/null 2>&1; then
  log "Installing Docker"
  sudo install -m 0755 -d /etc/apt/keyrings
  curl -fsSL https://download.docker.com/linux/ubuntu/gpg | sudo gpg --dearmor -o /etc/apt/keyrings/docker.gpg
  echo "deb [arch=$(dpkg --print-architecture) signed-by=/etc/apt/keyrings/docker.gpg] https://download.docker.com/linux/ubuntu $(. /etc/os-release && echo "$VERSION_CODENAME") stable" |
    sudo tee /etc/apt/sources.list.d/docker.list >/dev/null
  sudo apt-get update
  sudo apt-get install -y docker-ce docker-ce-cli containerd.io docker-compose-plugin
  sudo usermod -aG docker "$USER"
fi

if [[ ! -d "$HOME/.nvm" ]]; then
  log "Installing nvm and Node LTS"
  curl -fsSL https://raw.githubusercontent.com/nvm-sh/nvm/v0.39.7/install.sh | bash
  export NVM_DIR="$HOME/.nvm"
  # shellcheck disable=SC1091
  . "$NVM_DIR/nvm.sh"
  nvm install --lts
fi

log "Configuring git"
git config --global init.defaultBranch main
git config --global pull.rebase true

log "Done. Log out and in again for the docker group to take effect."
