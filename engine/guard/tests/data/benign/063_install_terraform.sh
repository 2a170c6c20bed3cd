#!/usr/bin/env bash
set -euo pipefail

VERSION="${1:-1.7.5}"
INSTALL_DIR="${INSTALL_DIR:-/usr/local/bin}"

case "$(uname -m)" in
  x86_64) arch=amd64 ;;
  aarch64|arm64) arch=arm64 ;;
  *) echo "unsupported architecture $(uname -m)" >&2; exit 1 ;;
esac
os=$(uname -s | tr '[:upper:]' '[:lower:]')

base="https://releases.hashicorp.com/terraform/${VERSION}"
zip="terraform_${VERSION}_${os}_${arch}.zip"

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"

echo "Downloading $zip"
curl -fsSLO "$base/$zip"
curl -fsSLO "$base/terraform_${VERSION}_SHA256SUMS"

grep " $zip\$" "terraform_${VERSION}_SHA256SUMS" | sha256sum -c -

unzip -q "$zip"
if [ -w "$INSTALL_DIR" ]; then
  install -m 0755 terraform "$INSTALL_DIR/terraform"
else
  sudo install -m 0755 terraform "$INSTALL_DIR/terraform"
fi
"$INSTALL_DIR/terraform" version
