# hotcell's. cargo starts every test program through this, and so does rustdoc, whose programs are left alone.
# What is said here is said before and after a program, never by it; the report gets the same lines.
report=$1 target=$2 lcov=$HOTCELL_LCOV
shift 2
unset HOTCELL_LCOV
case $1 in "$target"/*) ;; *) exec "$@" ;; esac
mkdir -p "${report%/*}"
# Counts of one program as text, behind those of the programs before it. Tools of LLVM read what one of about their age
# wrote: the compiler's own come first, then the newest.
measure() {
    compiler=${CARGO%/*}/rustc
    [ -x "$compiler" ] || compiler=rustc
    own=$("$compiler" --print sysroot 2>/dev/null)/lib/rustlib
    why=missing
    set -- "$raw"/*.profraw
    if [ ! -e "$1" ]; then
        # It was killed, or aborted.
        printf '@hotcell\tsilent\n' >>"$lcov"
        return
    fi
    for merge in "$own"/*/bin/llvm-profdata $(printf '%s\n' /usr/bin/llvm-profdata-* | sort -Vr) /usr/bin/llvm-profdata; do
        show=${merge%profdata*}cov${merge##*profdata}
        [ -x "$merge" ] && [ -x "$show" ] || continue
        # Of those that were killed while they wrote, the others count.
        if "$merge" merge -sparse -failure-mode=all -o "$raw/all" "$raw"/*.profraw; then
            set -- "$program"
            # Programs that a test starts.
            for other in "${program%/deps/*}"/*; do
                [ -f "$other" ] && [ -x "$other" ] && [ "${other%.so}" = "$other" ] && set -- "$@" -object "$other"
            done
            "$show" export -format=lcov -instr-profile="$raw/all" \
                -ignore-filename-regex='^/rustc/|/\.cargo/registry/|/(vendor|tests|benches|examples)/' "$@" >>"$lcov" && return
        fi
        why=unread
    done 2>/dev/null
    printf '@hotcell\t%s\n' "$why" >>"$lcov"
}
raw=
if [ -n "$lcov" ]; then
    raw=$lcov.raw
    rm -rf "$raw"
    mkdir "$raw"
fi
tab=$(printf '\t') program=$1 log=$report.log version=
list=$("$@" --list --format terse 2>/dev/null </dev/null) || list=
# Several at once: with one, libtest writes a name before its test runs and the result behind what was printed.
threads=$(nproc 2>/dev/null || echo 2)
[ "$threads" -ge 2 ] || threads=2
RUST_TEST_THREADS=${RUST_TEST_THREADS:-$threads}
export RUST_TEST_THREADS
[ -e "$report" ] || version=$("$CARGO" --version)
{
    printf '@hotcell\tprogram\t%s\n' "$program"
    [ -z "$version" ] || printf '@hotcell\tversion\t%s\t%s\n' "$program" "$version"
    printf '%s\n' "$list" | sed -n -e "s|^\(.*\): test\$|@hotcell${tab}test${tab}$program${tab}\1|p" \
        -e "s|^\(.*\): benchmark\$|@hotcell${tab}test${tab}$program${tab}\1|p"
    case $list in *': test'* | *': benchmark'*)
        # Deprecated, and still the only thing that says what came of each test apart from what tests print.
        if "$program" --help 2>/dev/null </dev/null | grep -q -e --logfile; then
            rm -rf "$log"
            printf '@hotcell\tlogged\t%s\n' "$program"
        fi
        ;;
    esac
    printf '@hotcell\tstart\t%s\t%s\n' "$program" "$RUST_TEST_THREADS"
} >"$report.now"
cat "$report.now" >>"$report"
cat "$report.now"
! grep -q "^@hotcell${tab}logged" "$report.now" || set -- "$@" --logfile "$log"
if [ -n "$raw" ]; then
    LLVM_PROFILE_FILE=$raw/%4m.profraw "$@"
else
    "$@"
fi
code=$?
[ ! -f "$log" ] || sed "s|^|@hotcell${tab}log${tab}$program${tab}|" "$log" >>"$report"
rm -rf "$log"
[ -z "$raw" ] || measure
printf '@hotcell\tend\t%s\t%s\n' "$program" "$code" >>"$report"
printf '\n@hotcell\tend\t%s\t%s\n' "$program" "$code"
exit "$code"
