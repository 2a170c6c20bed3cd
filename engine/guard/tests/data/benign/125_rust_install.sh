#!/usr/bin/env bash
set -euo pipefail

TOOLS=(cargo-edit cargo-watch cargo-nextest)

if command -v rustup >/dev/null; then
  rustup update stable
else
  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile default
  # shellcheck source=/dev/null
  source "$HOME/.cargo/env"
fi

rustup component add clippy rustfmt rust-analyzer

for tool in "${TOOLS[@]}"; do
  if cargo install --list | grep -q "^$tool "; then
    echo "$tool already installed"
  else
    cargo install --locked "$tool"
  fi
done

rustc --version
cargo --version
