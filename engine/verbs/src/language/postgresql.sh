# Has psql read one file in it, as sqlite3 would: no file of settings, plain rows, and the first error ends it.
source=$1
shift
find_postgres
if [ -z "$bin" ]; then
    echo 'PostgreSQL is not installed: on Debian, apt-get install postgresql' >&2
    exit 127
fi
mkdir -p "$HOME/.postgresql" && start_postgres "$HOME/.postgresql" || exit 1
LC_ALL=C.UTF-8 "$bin/psql" -XqAt -v ON_ERROR_STOP=1 -P pager=off -f "$source" "$@"
code=$?
stop_postgres
exit "$code"
