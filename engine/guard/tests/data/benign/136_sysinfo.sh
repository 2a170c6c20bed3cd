#!/bin/bash

bold=$(tput bold 2>/dev/null)
reset=$(tput sgr0 2>/dev/null)
title() { printf '\n%s%s%s\n' "$bold" "$1" "$reset"; }

title "Host"
echo "Name:    $(hostname -f 2>/dev/null || hostname)"
. /etc/os-release && echo "OS:      $PRETTY_NAME"
echo "Kernel:  $(uname -r)"
echo "Uptime: $(uptime -p)"
echo "Load:    $(cut -d' ' -f1-3 /proc/loadavg) on $(nproc) cores"

title "Memory"
free -h | awk 'NR==1 || /Mem|Swap/'

title "Disks"
df -h -x tmpfs -x devtmpfs -x squashfs | awk 'NR==1 {print; next} {p=$5+0; print $0 (p > 85 ? "  <-- !" : "")}'

title "Network"
ip -brief addr show | grep -v '^lo'

title "Top CPU"
ps -eo pid,user,%cpu,%mem,comm --sort=-%cpu | head -6

title "Failed units"
systemctl --failed --no-legend 2>/dev/null || echo "n/a"

title "Last logins"
last -n 5 2>/dev/null | head -5
