#!/usr/bin/env bash
set -euo pipefail

DOMAIN="${1:?domain}"
PORT="${2:?upstream port}"
EMAIL="${LE_EMAIL:?set LE_EMAIL}"
CONF="/etc/nginx/sites-available/$DOMAIN"

if [[ -f "$CONF" ]]; then
  echo "$CONF exists already" >&2
  exit 1
fi

cat > "$CONF" <<EOF
server {
    listen 80;
    server_name $DOMAIN;

    client_max_body_size 20m;

    location / {
        proxy_pass http://127.0.0.1:$PORT;
        proxy_http_version 1.1;
        proxy_set_header Host \$host;
        proxy_set_header X-Real-IP \$remote_addr;
        proxy_set_header X-Forwarded-For \$proxy_add_x_forwarded_for;
        proxy_set_header X-Forwarded-Proto \$scheme;
        proxy_set_header Upgrade \$http_upgrade;
        proxy_set_header Connection "upgrade";
    }
}
EOF

ln -s "$CONF" "/etc/nginx/sites-enabled/$DOMAIN"
if ! nginx -t; then
  rm -f "/etc/nginx/sites-enabled/$DOMAIN" "$CONF"
  exit 1
fi
systemctl reload nginx
certbot --nginx -d "$DOMAIN" -m "$EMAIL" --agree-tos --non-interactive --redirect
