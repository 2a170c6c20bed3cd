# A bounded fork bomb of a shell. $1: processes=NUMBER allowed
allowed=${1#processes=}
bomb() {
    made=0
    while [ "$made" -lt $((allowed * 2 + 20)) ]; do
        sleep 5 >/dev/null 2>&1 </dev/null &
        made=$((made + 1))
    done
    alive=0
    for job in $(jobs -p); do
        kill -0 "$job" 2>/dev/null && alive=$((alive + 1))
    done
    [ "$alive" -gt $((allowed + 2)) ] && exit 77
    exit 0
}
# In a shell of its own, since a shell that cannot fork gives up with 254.
(bomb) 2>/dev/null
code=$?
echo "ended with $code" >&2
[ "$code" = 254 ] && exit 0
exit "$code"
