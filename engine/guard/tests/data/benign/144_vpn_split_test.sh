#!/bin/bash
# Keep the office WireGuard tunnel up.
IFACE=${1:-wg0}
TARGET=${2:-10.20.0.1}
FAILS=0
MAX_FAILS=3

while true; do
    if ping -c1 -W2 -I "$IFACE" "$TARGET" &>/dev/null; then
        [ $FAILS -gt 0 ] && echo "$(date '+%F %T') tunnel is back"
        FAILS=0
    else
        FAILS=$((FAILS + 1))
        echo "$(date '+%F %T') no answer from $TARGET ($FAILS/$MAX_FAILS)"
    fi

    if [ $FAILS -ge $MAX_FAILS ]; then
        echo "$(date '+%F %T') restarting $IFACE"
        wg-quick down "$IFACE" 2>/dev/null
        sleep 2
        wg-quick up "$IFACE"
        FAILS=0
    fi
    sleep 20
done
