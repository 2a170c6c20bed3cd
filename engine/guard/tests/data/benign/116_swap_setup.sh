#!/bin/bash
set -e

SIZE=${1:-2G}
FILE=/swapfile

if [ "$(id -u)" -ne 0 ]; then
    echo "This script must be run as root"
    exit 1
fi

if swapon --show | grep -q "$FILE"; then
    echo "Swap file already active:"
    swapon --show
    exit 0
fi

fallocate -l "$SIZE" $FILE || dd if=/dev/zero of=$FILE bs=1M count=2048 status=progress
chmod 600 $FILE
mkswap $FILE
swapon $FILE

grep -q "^$FILE " /etc/fstab || echo "$FILE none swap sw 0 0" >> /etc/fstab

echo 'vm.swappiness=10' > /etc/sysctl.d/99-swappiness.conf
sysctl -p /etc/sysctl.d/99-swappiness.conf

free -h
