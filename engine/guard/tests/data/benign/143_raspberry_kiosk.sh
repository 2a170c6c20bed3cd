#!/usr/bin/env bash
set -euo pipefail

URL="${1:?dashboard url}"
KIOSK_USER="${2:-pi}"
HOME_DIR=$(getent passwd "$KIOSK_USER" | cut -d: -f6)

sudo apt-get update
sudo apt-get install -y --no-install-recommends chromium-browser unclutter xserver-xorg xinit openbox x11-xserver-utils

sudo -u "$KIOSK_USER" mkdir -p "$HOME_DIR/.config/openbox"
sudo -u "$KIOSK_USER" tee "$HOME_DIR/.config/openbox/autostart" >/dev/null <<EOF
xset s off
xset s noblank
xset -dpms
unclutter -idle 0.5 &
while true; do
  chromium-browser --kiosk --noerrdialogs --disable-infobars --incognito "$URL"
  sleep 2
done &
EOF

# autologin on tty1 and start X
sudo mkdir -p /etc/systemd/system/getty@tty1.service.d
sudo tee /etc/systemd/system/getty@tty1.service.d/autologin.conf >/dev/null <<EOF
[Service]
ExecStart=
ExecStart=-/sbin/agetty --autologin $KIOSK_USER --noclear %I \$TERM
EOF

profile="$HOME_DIR/.bash_profile"
line='[[ -z $DISPLAY && $XDG_VTNR -eq 1 ]] && exec startx'
grep -qxF "$line" "$profile" 2>/dev/null || echo "$line" | sudo -u "$KIOSK_USER" tee -a "$profile" >/dev/null

# nightly reboot
( sudo crontab -l 2>/dev/null | grep -v '/sbin/reboot' || true; echo "0 4 * * * /sbin/reboot" ) | sudo crontab -
echo "Reboot to start the kiosk."
