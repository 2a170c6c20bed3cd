#!/usr/bin/env bash
# Sends a Telegram message for every ERROR line. Needs TELEGRAM_TOKEN and TELEGRAM_CHAT.
set -u

LOG="${1:-/var/log/myapp/app.log}"
COOLDOWN=60
last=0

: "${TELEGRAM_TOKEN:?}" "${TELEGRAM_CHAT:?}"

send() {
  curl -s -m 10 "https://api.telegram.org/bot${TELEGRAM_TOKEN}/sendMessage" \
    --data-urlencode "chat_id=${TELEGRAM_CHAT}" \
    --data-urlencode "text=$1" >/dev/null || echo "could not send message" >&2
}

tail -n 0 -F "$LOG" | while read -r line; do
  case "$line" in
    *ERROR*|*CRITICAL*)
      now=$(date +%s)
      if (( now - last > COOLDOWN )); then
        send "[$(hostname)] ${line:0:500}"
        last=$now
      fi
      ;;
  esac
done
