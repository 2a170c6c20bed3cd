# hotcell's. cargo-nextest lists and starts every test through this. It keeps for itself what is printed here: what is said of
# tests goes to its own output.
target=$1 which=$2 word=$3
shift 3
case $1 in "$target"/*) ;; *) exec "$@" ;; esac
exec 9>"/proc/$PPID/fd/1" || exit 70
program=$1 printed=$target/.hotcell-printed
chosen() {
    case $which in
    all) true ;;
    exact) [ "$1" = "$word" ] ;;
    part) case $1 in *"$word"*) true ;; *) false ;; esac ;;
    *) false ;;
    esac
}
case " $* " in *' --list '*)
    case " $* " in *' --ignored '*) ;; *) exec "$@" 9>&- ;; esac
    # Of which it is known what they print last.
    mkdir -p "$printed"
    ! "$program" --help 2>/dev/null </dev/null 9>&- | grep -q -e '--logfile PATH' || : >"$printed/${program##*/}"
    list=$("$@" 9>&-)
    code=$?
    [ -n "$list" ] || exit "$code"
    printf '%s\n' "$list"
    # A line at a time: others write too.
    printf '%s\n' "$list" | while IFS= read -r line; do
        name=${line%: test}
        [ "$name" != "$line" ] || name=${line%: benchmark}
        [ "$name" = "$line" ] || ! chosen "$name" || printf '@hotcell\tignored\t%s\t%s\n' "$program" "$name" >&9
    done
    exit "$code"
    ;;
esac
[ "$2" = --exact ] || exec "$@" 9>&-
name=$3 attempt=${NEXTEST_ATTEMPT:-1}
[ "$attempt" != 1 ] || printf '@hotcell\tbegin\t%s\t%s %s %s\n' "$program" "${NEXTEST_VERSION:--}" "${NEXTEST_BINARY_ID:--}" "$name" >&9
# One that takes too long is asked to end, and this with it.
trap : HUP INT QUIT TERM
if [ -e "$printed/${program##*/}" ]; then
    text=$printed/$$
    "$@" >"$text" 9>&-
    code=$? end=$code
    # A test that ends its process says with that nothing of itself.
    [ "$code" != 0 ] || grep -q '^test result: ok\.' "$text" || end=early
    cat "$text"
    rm -f "$text"
else
    "$@" 9>&-
    code=$? end=$code
fi
[ "$code" != 0 ] && [ "$attempt" -lt "${NEXTEST_TOTAL_ATTEMPTS:-1}" ] || printf '@hotcell\tend\t%s\t%s %s\n' "$program" "$end" "$name" >&9
if [ "$code" -gt 128 ] && [ "$code" -le 192 ]; then
    trap - HUP INT QUIT TERM
    kill -"$((code - 128))" $$
fi
exit "$code"
