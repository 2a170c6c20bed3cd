# hotcell's. cargo starts every test program through this, and so does rustdoc, whose programs are left alone.
# What is said here is said before and after a program, never by it; the report gets the same lines.
# libtest lists `NAME: benchmark`, libtest-mimic `NAME: bench`.
report=$1 target=$2 lcov=$HOTCELL_LCOV only=$HOTCELL_ONLY rest=$HOTCELL_REST listing=$HOTCELL_LIST
shift 2
unset HOTCELL_LCOV HOTCELL_ONLY HOTCELL_REST HOTCELL_LIST
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
tab=$(printf '\t') program=$1 log=$report.log version= skipped=
list=$("$@" --list --format terse 2>/dev/null </dev/null) || list=
# Of a part of the tests, those of this program; none of them is a run of no test.
tests=
case $list in *': test'* | *': bench'*) tests=1 ;; esac
if [ -n "$only" ] && [ -n "$tests" ]; then
    list=$(printf '%s\n' "$list" | awk 'NR == FNR { wanted[$0] = 1; next } { name = $0; sub(/: (test|bench|benchmark)$/, "", name); if (name in wanted) print }' "$only" -)
    OLDIFS=$IFS
    IFS='
'
    set -f
    # shellcheck disable=SC2046 # a word for each line
    set -- "$@" --exact $(printf '%s\n' "${list:-hotcell: no test has this name}" | sed -e 's/: test$//' -e 's/: bench$//' -e 's/: benchmark$//' -e 's/^\[[^]]*\] //')
    set +f
    IFS=$OLDIFS
elif [ -n "$only" ] && [ -z "$rest" ]; then
    # A harness of its own is one test, and belongs to another part.
    skipped=1
fi
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
        -e "s|^\(.*\): bench\$|@hotcell${tab}test${tab}$program${tab}\1|p" \
        -e "s|^\(.*\): benchmark\$|@hotcell${tab}test${tab}$program${tab}\1|p"
    case $list in *': test'* | *': bench'*)
        # Deprecated, and still the only thing that says what came of each test apart from what tests print. libtest writes the log
        # beside its output; harnesses that have its options (libtest-mimic) write it in place of their output. A run of no test shows
        # which: only libtest's says so on its output then.
        if "$program" --help 2>/dev/null </dev/null | grep -q -e --logfile &&
            "$program" --exact 'hotcell: no test has this name' --logfile "$log" 2>/dev/null </dev/null | grep -q '^running 0 tests'; then
            printf '@hotcell\tlogged\t%s\n' "$program"
        fi
        # Of that run, whichever it was.
        rm -rf "$log"
        ;;
    esac
    printf '@hotcell\tstart\t%s\t%s\n' "$program" "$RUST_TEST_THREADS"
} >"$report.now"
cat "$report.now" >>"$report"
cat "$report.now"
if [ -n "$listing" ]; then
    # One without tests says so; a harness of its own says something else, or fails.
    case $("$@" --list 2>/dev/null </dev/null) in *[0-9]' test'*) printf '@hotcell\tlists\t%s\n' "$program" >>"$report" ;; esac
    exit 0
fi
if [ -n "$skipped" ]; then
    printf 'test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n'
    printf '@hotcell\tend\t%s\t0\n' "$program" | tee -a "$report"
    exit 0
fi
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
