#!/bin/sh
set -eu

PREFIX="${PREFIX:-/usr/local}"
NAME=acmectl

if [ "$(id -u)" -ne 0 ]; then
    exec sudo PREFIX="$PREFIX" "$0" "$@"
fi

echo "Uninstalling $NAME from $PREFIX"
if systemctl list-unit-files "$NAME-agent.service" >/dev/null 2>&1; then
    systemctl disable --now "$NAME-agent.service" 2>/dev/null || true
    rm -f "/etc/systemd/system/$NAME-agent.service"
    systemctl daemon-reload
fi

rm -f "$PREFIX/bin/$NAME"
rm -rf "$PREFIX/lib/$NAME" "$PREFIX/share/doc/$NAME"
rm -f "/etc/bash_completion.d/$NAME"

config="/etc/$NAME"
if [ -d "$config" ]; then
    printf 'Remove the configuration in %s as well? [y/N] ' "$config"
    read -r answer
    case "$answer" in
        [Yy]*) rm -rf "$config" ;;
        *) echo "kept $config" ;;
    esac
fi
echo "Done."
