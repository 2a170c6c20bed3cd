#!/bin/bash
set -euo pipefail

VERSION=${1:-3.12.2}
PREFIX=${PREFIX:-$HOME/.local/python-$VERSION}
JOBS=$(nproc)

sudo apt-get install -y build-essential libssl-dev zlib1g-dev libbz2-dev libreadline-dev \
  libsqlite3-dev libffi-dev liblzma-dev tk-dev uuid-dev

build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cd "$build"

curl -fLO "https://www.python.org/ftp/python/$VERSION/Python-$VERSION.tgz"
tar xf "Python-$VERSION.tgz"
cd "Python-$VERSION"

./configure --prefix="$PREFIX" --enable-optimizations --with-lto > configure.log
make -j"$JOBS" > make.log 2>&1 || { tail -n 40 make.log; exit 1; }
make install > install.log

short=${VERSION%.*}
mkdir -p "$HOME/.local/bin"
ln -sf "$PREFIX/bin/python$short" "$HOME/.local/bin/python$short"
"$PREFIX/bin/python$short" -c 'import ssl, sqlite3, lzma, ctypes; print("ok", ssl.OPENSSL_VERSION)'
