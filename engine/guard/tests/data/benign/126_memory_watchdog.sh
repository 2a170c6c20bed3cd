#!/bin/bash

SERVICE="${1:-myapp}"
LIMIT_MB="${2:-1024}"
INTERVAL=30

logger -t watchdog "watching $SERVICE, limit ${LIMIT_MB}MB"

while true; do
    pid=$(systemctl show -p MainPID --value "$SERVICE")
    if [ "$pid" -gt 0 ] 2>/dev/null && [ -r "/proc/$pid/status" ]; then
        rss_kb=$(awk '/^VmRSS/ {print $2}' "/proc/$pid/status")
        rss_mb=$((rss_kb / 1024))
        if [ "$rss_mb" -gt "$LIMIT_MB" ]; then
            logger -t watchdog "$SERVICE uses ${rss_mb}MB, restarting"
            systemctl restart "$SERVICE"
            sleep 60
        fi
    else
        logger -t watchdog "$SERVICE is not running"
    fi
    sleep "$INTERVAL"
done
