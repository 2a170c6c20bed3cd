# hotcell's. Starts a throw-away PostgreSQL, reachable through a socket only, and runs one file of pgTAP tests after the
# other, each in a database of its own. What is said here is said before and after a file, never by it.
report=$1 data=$2 stop=$3 only=$4
bad=0
mkdir -p "${report%/*}" "$data"
say() { printf '@hotcell\t%s\t%s\t%s\n' "$1" "$2" "$3"; }
lacks() {
    say missing - "$1"
    exit 86
}
find_postgres
[ -n "$bin" ] || lacks postgresql
version=$("$bin/postgres" --version | tr -dc '0-9. ' | sed 's/^ *//; s/ .*//')
[ -f "$("$bin/pg_config" --sharedir 2>/dev/null || echo "${bin%/bin}/share")/extension/pgtap.control" ] || lacks "pgtap ${version%%.*}"
start_postgres "$data" || exit 3
quiet() { "$bin/psql" -XAtq -v ON_ERROR_STOP=1 -P pager=off "$@" </dev/null; }
# The first error that psql names: psql:FILE:LINE: ERROR:  what
broken() {
    bad=1
    say broken "$1" "$(sed -nE "s|^psql:[^ ]*:([0-9]+): (ERROR\|error): +|\1 |p; s|^psql: (error: )?|0 |p" "$2" | head -n 1 | grep . || echo '0 psql ended before its file did')"
}
say version - "$version"
quiet -c 'CREATE DATABASE tests' && quiet -d tests -c 'CREATE EXTENSION pgtap' || exit 3
# What the tests are about.
for file in schema.sql sql/*.sql migrations/*.sql; do
    [ -f "$file" ] && [ "$bad" = 0 ] || continue
    quiet -d tests -f "$file" >"$data/log" 2>"$data/err" || broken "$file" "$data/err"
    cat "$data/err" >&2
done
for file in $(find . -name '.*' ! -name . -prune -o -name '*[[:cntrl:] ]*' -prune -o -type f \( -name '*.sql' -o -name '*.pg' \) -print |
    sort | xargs -r grep -liE '(^|[^a-z_])((no_)?plan|runtests)[[:space:]]*\('); do
    file=${file#./}
    case $file in schema.sql | sql/* | migrations/*) continue ;; esac
    case $file in "$only" | "$only"/*) ;; *) [ -z "$only" ] || continue ;; esac
    quiet -c 'DROP DATABASE IF EXISTS own WITH (FORCE)' -c 'CREATE DATABASE own TEMPLATE tests' 2>"$data/err" || broken "$file" "$data/err"
    say program "$file" | tee -a "$report"
    say start "$file"
    { quiet -d own -f "$file" 2>"$data/err"; echo $? >"$data/code"; } | tee "$data/tap"
    code=$(cat "$data/code")
    cat "$data/err" >&2
    # psql ends well whatever the tests say.
    awk '/^1\.\.[0-9]+/ { plan = substr($1, 4); planned = 1 }
        /^(not )?ok([ \t]|$)/ { ran++ }
        /^not ok/ && !/# *TODO/ { bad = 1 }
        END { exit bad || !planned || plan + 0 != ran + 0 }' "$data/tap" || bad=1
    {
        say file "$file" "$(wc -c <"$data/tap")"
        cat "$data/tap"
        echo
        say end "$file" "$code"
    } >>"$report"
    echo
    say end "$file" "$code"
    [ "$code" = 0 ] || broken "$file" "$data/err"
    [ -z "$stop" ] || [ "$bad" = 0 ] || break
done
stop_postgres
say 'done' - "$bad" >>"$report"
say 'done' - "$bad"
exit "$bad"
