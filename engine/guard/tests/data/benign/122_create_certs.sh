#!/usr/bin/env bash
set -euo pipefail

DOMAIN="${1:-app.localhost}"
OUT="${2:-certs}"
DAYS=825

mkdir -p "$OUT"
cd "$OUT"

if [[ ! -f ca.key ]]; then
  openssl genrsa -out ca.key 4096
  openssl req -x509 -new -key ca.key -sha256 -days 3650 -subj "/CN=Local Dev CA" -out ca.crt
fi

openssl genrsa -out "$DOMAIN.key" 2048
openssl req -new -key "$DOMAIN.key" -subj "/CN=$DOMAIN" -out "$DOMAIN.csr"

cat > "$DOMAIN.ext" <<EOF
basicConstraints=CA:FALSE
keyUsage=digitalSignature,keyEncipherment
extendedKeyUsage=serverAuth
subjectAltName=DNS:$DOMAIN,DNS:*.$DOMAIN,IP:127.0.0.1
EOF

openssl x509 -req -in "$DOMAIN.csr" -CA ca.crt -CAkey ca.key -CAcreateserial \
  -out "$DOMAIN.crt" -days $DAYS -sha256 -extfile "$DOMAIN.ext"

chmod 600 ./*.key
rm -f "$DOMAIN.csr" "$DOMAIN.ext"
openssl verify -CAfile ca.crt "$DOMAIN.crt"
echo "Add $PWD/ca.crt to your trust store to avoid browser warnings."
