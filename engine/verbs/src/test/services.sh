# hotcell's. Starts what tests need beside them, in their own sandbox, waits until it answers, runs commands before them, runs
# them, and ends what it started. What is said for hotcell goes to standard error, before the tests begin.
limit=$1
shift
base=$HOME/.hotcell-services pids= number=0 command_log=
mkdir -p "$base"
stop() {
    # shellcheck disable=SC2086 # a list of numbers
    [ -z "$pids" ] || kill $pids 2>/dev/null
}
# fail WHAT LOG: the reason, the end of what was printed, and the status that says that no test ran.
fail() {
    {
        printf '\nhotcell-service: %s\n' "$1"
        [ ! -s "$2" ] || tail -n 12 "$2" | cut -c 1-400 | sed 's/^/hotcell-service| /'
    } >&2
    stop
    exit 97
}
# Sockets that wait for connections: TCP, and those with a path.
listening() { cat /proc/net/tcp /proc/net/tcp6 /proc/net/unix 2>/dev/null | awk '$4 == "0A" || $4 == "00010000" { n++ } END { print n + 0 }'; }
more_listen() { [ "$(listening)" -gt "$before" ]; }
# A process that has ended stays known until somebody waits for it.
ended() { case $(cat "/proc/$pid/stat" 2>/dev/null) in '' | *') Z '*) true ;; *) false ;; esac; }
# Processes in the sandbox, which is theirs alone.
processes() {
    set -- /proc/[0-9]*
    echo $#
}
# await WHAT LOG COMMAND…: until the command succeeds.
await() {
    what=$1 log=$2 since=$(date +%s)
    shift 2
    until "$@" >>"$log.ready" 2>&1; do
        if [ -n "$pid" ] && ended; then
            # What puts itself into the background ends well.
            wait "$pid"
            code=$?
            [ "$code" = 0 ] || fail "$what ended with status $code before it answered" "$log"
            pid= gone=$code
        fi
        # No process of it is left that could answer yet.
        if [ -n "$gone" ] && [ "$(processes)" -le "$floor" ]; then
            # It may have begun to answer since the command above.
            "$@" >>"$log.ready" 2>&1 && break
            fail "$what ended with status $gone before it answered" "$log"
        fi
        if [ $(($(date +%s) - since)) -ge "$limit" ]; then
            [ -s "$log" ] || log=$log.ready
            fail "$what did not answer within $limit s" "$log"
        fi
        sleep 0.1
    done
}
# begin WHAT COMMAND…: in the background; the pipe of events and the streams stay the tests'.
begin() {
    number=$((number + 1)) what=$1 log=$base/$number.log before=$(listening) floor=$(processes) gone=
    shift
    "$@" >"$log" 2>&1 </dev/null 3>&- &
    pid=$!
    pids="$pids $pid"
}
alone=$(processes) floor=0 gone= pid=
while [ "$1" != -- ]; do
    kind=$1 value=$2
    shift 2
    case $kind in
    postgres)
        find_postgres
        [ -n "$bin" ] || fail 'PostgreSQL is not installed: on Debian, apt-get install postgresql' ''
        data=$base/postgres
        mkdir -p "$data"
        "$bin/initdb" -A trust -U sandbox -E UTF8 --no-locale --no-sync -D "$data/db" >"$data/log" 2>&1 </dev/null ||
            fail 'PostgreSQL could not make its folder' "$data/log"
        begin PostgreSQL "$bin/postgres" -D "$data/db" -k "$data" -h 127.0.0.1 -p 5432 -F -c shared_buffers=32MB -c max_connections=100
        # What a command asks may not be what tests are told.
        await PostgreSQL "$log" env -i PATH="$PATH" "$bin/psql" -XAtq -h 127.0.0.1 -p 5432 -U sandbox -d postgres -c 'CREATE DATABASE test'
        : "${PGHOST=127.0.0.1}" "${PGPORT=5432}" "${PGUSER=sandbox}" "${PGPASSWORD=sandbox}" "${PGDATABASE=test}"
        : "${DATABASE_URL=postgresql://sandbox:sandbox@127.0.0.1:5432/test}"
        export PGHOST PGPORT PGUSER PGPASSWORD PGDATABASE DATABASE_URL
        ;;
    redis)
        program=$(command -v redis-server || command -v valkey-server) ||
            fail 'Redis is not installed: on Debian, apt-get install redis-server' ''
        mkdir -p "$base/redis"
        begin Redis "$program" --bind 127.0.0.1 --port 6379 --save '' --appendonly no --dir "$base/redis"
        await Redis "$log" more_listen
        : "${REDIS_URL=redis://127.0.0.1:6379/0}"
        export REDIS_URL
        ;;
    service)
        begin "the service \`$value\`" sh -c "$value"
        command_log=$log
        [ -n "$HOTCELL_READY" ] || await "the service \`$value\`" "$log" more_listen
        ;;
    ready)
        # Any of the services may be what is asked.
        floor=$alone
        await "the service's check \`$value\`" "${command_log:-$base/ready.log}" sh -c "$value"
        ;;
    before)
        log=$base/before.log
        sh -c "$value" >"$log" 2>&1 </dev/null 3>&-
        code=$?
        cat "$log" >&2
        [ "$code" = 0 ] || fail "the command \`$value\` ended with status $code" "$log"
        ;;
    esac
done
shift
unset HOTCELL_READY
"$@"
code=$?
stop
case $code in
# As the tests ended, but for signals that stop.
129 | 13[0-9] | 14[0-6] | 15[1-9]) kill -"$((code - 128))" $$ ;;
esac
exit "$code"
