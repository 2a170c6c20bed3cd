# hotcell's: a throw-away PostgreSQL, reachable through a socket only.

# Where its programs are, in bin: nothing where it is not installed.
find_postgres() {
    bin=
    for found in "$(readlink -f "$(command -v initdb)")" /usr/lib/postgresql/*/bin/initdb; do
        # The newest is the last of Debian's.
        [ ! -x "$found" ] || bin=${found%/*}
    done
}

# start_postgres FOLDER: a new cluster there, which psql speaks to from here on.
start_postgres() {
    # psql may be an older one, and knows which cluster it speaks to by what is asked of it only.
    export PGHOST="$1" PGUSER=sandbox PGDATABASE=postgres
    unset PGPORT PGSERVICE PGSERVICEFILE PGHOSTADDR PGOPTIONS PGSSLMODE PGREQUIRESSL PGPASSFILE PGPASSWORD PGTARGETSESSIONATTRS
    {
        "$bin/initdb" -A trust -U sandbox -E UTF8 --no-locale --no-sync -D "$1/db" &&
            "$bin/pg_ctl" -D "$1/db" -w -t 60 -l "$1/server" -o "-k '$1' -h '' -F -c max_connections=20" start
    } >"$1/log" 2>&1 </dev/null && return
    cat "$1/log" "$1/server" >&2
    return 1
}

stop_postgres() {
    "$bin/pg_ctl" -D "$PGHOST/db" -m immediate stop >/dev/null 2>&1 </dev/null
}

