# A bounded fork bomb of a shell. $1: processes=NUMBER allowed
allowed=${1#processes=}
made=0
while [ "$made" -lt $((allowed * 2 + 20)) ]; do
    sleep 5 >/dev/null 2>&1 </dev/null &
    made=$((made + 1))
done
alive=0
for job in $(jobs -p); do
    kill -0 "$job" 2>/dev/null && alive=$((alive + 1))
done
if [ "$alive" -gt $((allowed + 2)) ]; then
    echo "through: $alive processes" >&2
    exit 77
fi
echo "stopped at $alive" >&2
exit 0
