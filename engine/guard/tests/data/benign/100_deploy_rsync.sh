#!/bin/bash
set -euo pipefail

HOST="${DEPLOY_HOST:?set DEPLOY_HOST}"
USER_NAME="${DEPLOY_USER:-www}"
TARGET="/var/www/site"
SSH_OPTS=(-o BatchMode=yes -o ConnectTimeout=10)

remote() { ssh "${SSH_OPTS[@]}" "$USER_NAME@$HOST" "$@"; }

rollback() {
  echo "Rolling back"
  remote "test -d $TARGET.bak && rm -rf $TARGET && mv $TARGET.bak $TARGET"
}

if [[ "${1:-}" == "--rollback" ]]; then
  rollback
  exit
fi

rm -rf public
hugo --minify

remote "rm -rf $TARGET.bak && cp -a $TARGET $TARGET.bak"
rsync -az --delete --checksum -e "ssh ${SSH_OPTS[*]}" public/ "$USER_NAME@$HOST:$TARGET/"

status=$(curl -s -o /dev/null -w '%{http_code}' "https://$HOST/")
if [[ "$status" != "200" ]]; then
  echo "site returned $status after the deploy" >&2
  rollback
  exit 1
fi
echo "deployed to https://$HOST/"
