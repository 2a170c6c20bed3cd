#!/usr/bin/env bash
# Installs myapp as a systemd service.
set -euo pipefail

APP_NAME=myapp
APP_USER=myapp
APP_DIR=/opt/$APP_NAME
UNIT=/etc/systemd/system/$APP_NAME.service

if [ "$(id -u)" -ne 0 ]; then
  echo "Please run as root (sudo $0)" >&2
  exit 1
fi

id "$APP_USER" &>/dev/null || useradd --system --home "$APP_DIR" --shell /usr/sbin/nologin "$APP_USER"

install -d -o "$APP_USER" -g "$APP_USER" "$APP_DIR"
cp -r ./app requirements.txt "$APP_DIR/"
python3 -m venv "$APP_DIR/venv"
"$APP_DIR/venv/bin/pip" install --quiet -r "$APP_DIR/requirements.txt"
chown -R "$APP_USER:$APP_USER" "$APP_DIR"

cat > "$UNIT" <<EOF
[Unit]
Description=My application
After=network-online.target
Wants=network-online.target

[Service]
Type=simple
User=$APP_USER
WorkingDirectory=$APP_DIR
EnvironmentFile=-/etc/default/$APP_NAME
ExecStart=$APP_DIR/venv/bin/python -m app
Restart=on-failure
RestartSec=5
NoNewPrivileges=true
ProtectSystem=full

[Install]
WantedBy=multi-user.target
EOF

systemctl daemon-reload
systemctl enable --now "$APP_NAME"
systemctl --no-pager status "$APP_NAME"
