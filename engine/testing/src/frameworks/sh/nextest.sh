# hotcell's. cargo-nextest lists and starts every test through this. It keeps for itself what is printed here: what is said of
# tests goes to its own output, a line at a time, since others write too. Nothing is kept in files that tests could change.
target=$1 which=$2 word=$3
shift 3
case $1 in "$target"/*) ;; *) exec "$@" ;; esac
exec 9>"/proc/$PPID/fd/1"
program=$1
# Before it, what a set-up script printed without an end of line.
say() { printf '\n@hotcell\t%s\t%s\t%s\n' "$1" "$program" "$2" >&9; }
chosen() {
    case $which in
    whole | all) true ;;
    exact) [ "$1" = "$word" ] ;;
    part) case $1 in *"$word"*) true ;; *) false ;; esac ;;
    *) false ;;
    esac
}
if [ "$2" = --list ]; then
    case " $* " in *' --ignored '*) ;; *) exec "$@" 9>&- ;; esac
    # With --list, so that what does not know --help lists.
    case $("$@" --help 2>/dev/null </dev/null 9>&-) in
    *RUST_TEST_*) say listed "$which libtest" ;;
    *) say listed "$which other" ;;
    esac
    list=$("$@" 9>&-)
    code=$?
    [ -n "$list" ] || exit "$code"
    printf '%s\n' "$list"
    printf '%s\n' "$list" | while IFS= read -r line; do
        name=${line%: test}
        [ "$name" != "$line" ] || name=${line%: benchmark}
        [ "$name" = "$line" ] || ! chosen "$name" || say ignored "$name"
    done
    exit "$code"
fi
[ "$2" = --exact ] || exec "$@" 9>&-
name=$3 text=$target/.hotcell-printed-$$
say begin "${NEXTEST_VERSION:--} ${NEXTEST_BINARY_ID:--} ${NEXTEST_ATTEMPT:-1} $name"
# In a file without a name: what libtest says last tells whether the test came to its end.
exec 8>>"$text" 7<"$text"
rm -f "$text"
# One that takes too long is asked to end, and this with it.
trap : HUP INT QUIT TERM
"$@" >&8 7<&- 8>&- 9>&-
code=$?
said=$(tail -c 65536 <&7 | sed -n '/^test result: /p' | tail -n 1)
case $said in
'test result: ok. 1 passed; 0 failed; 0 ignored;'* | 'test result: ok. 0 passed; 0 failed; 0 ignored; 1 measured;'*) said=one ;;
# Some harnesses know only then that a test cannot run here.
'test result: ok. 0 passed; 0 failed; 1 ignored;'*) said=ignored ;;
'test result: ok. 0 passed; '*) said=none ;;
'') said=nothing ;;
*) said=other ;;
esac
# Much of it is cut out of the middle: nextest keeps all that it gets.
if [ "$(wc -c </proc/self/fd/8)" -le 65536 ]; then
    head -c 65536 /proc/self/fd/8
else
    head -c 32768 /proc/self/fd/8
    printf '\n...\n'
    tail -c 32768 /proc/self/fd/8
fi
say end "$code ${NEXTEST_ATTEMPT:-1} ${NEXTEST_TOTAL_ATTEMPTS:-1} $said $name"
case $code in
# As the test ended, but for signals that stop.
129 | 13[0-9] | 14[0-6] | 15[1-9])
    trap - HUP INT QUIT TERM
    kill -"$((code - 128))" $$
    ;;
esac
exit "$code"
