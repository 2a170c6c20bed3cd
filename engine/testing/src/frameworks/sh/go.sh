# hotcell's. `go test` starts every test program through this. What is said here is said before and after a program,
# never by it; the report gets the same lines.
# Tests do not learn how they are run: neither a list nor a stub is to be told from a usual run by a variable.
report=$1 each=$HOTCELL_EACH listing=$HOTCELL_LIST
shift
unset HOTCELL_EACH HOTCELL_LIST
mkdir -p "${report%/*}"
tab=$(printf '\t') now=$(mktemp "$report.XXXXXX")
program=${now##*.}
pattern=. version=
[ -e "$report" ] || version=$(go env GOVERSION)
for word; do
    # What is listed has no subtests.
    case $word in -test.run=*) pattern=${word#-test.run=} pattern=${pattern%%/*} ;; esac
done
{
    printf '@hotcell\tprogram\t%s\n' "$program"
    [ -z "$version" ] || printf '@hotcell\tversion\t%s\t%s\n' "$program" "$version"
    "$1" -test.list="$pattern" >"$now.all" 2>/dev/null </dev/null
    # TestMain may print before and after the list, and end its text within a line. A list of nothing shows it alone.
    : >"$now.none"
    if LC_ALL=C grep -qv '^\(Test\|Example\|Fuzz\|Benchmark\)[^ !-/:-@]*$' "$now.all"; then
        "$1" -test.list='^$' >"$now.none" 2>/dev/null </dev/null
    fi
    LC_ALL=C awk -v head="@hotcell${tab}test${tab}$program${tab}" '
        function is_name(line) {
            return line ~ /^(Test|Example|Fuzz|Benchmark)/ && line !~ /[\001-\057\072-\100\133-\136\140\173-\177]/
        }
        function first(text) { return index(text, "\n") ? substr(text, 1, index(text, "\n") - 1) : text }
        FILENAME == ARGV[1] { none = none $0 "\n"; next }
        { all = all $0 "\n" }
        END {
            # No test: the text alone.
            if (none != "" && all == none) exit
            # The text before ends where both differ, or earlier if the text after begins as the first name does.
            for (at = 0; at < length(none) && substr(all, at + 1, 1) == substr(none, at + 1, 1);) at++
            for (end = at; end >= 0 && !is_name(first(substr(all, end + 1, 1000)));) end--
            if (end < 0) end = 0
            after = substr(none, end + 1)
            all = substr(all, end + 1)
            from = length(all) - length(after)
            if (after != "" && from > 0 && substr(all, from + 1) == after) all = substr(all, 1, from)
            count = split(all, lines, "\n")
            for (n = 1; n <= count; n++) if (is_name(lines[n]) && lines[n] !~ /^Benchmark/) print head lines[n]
        }' "$now.none" "$now.all"
    rm -rf "$now.none" "$now.all"
    printf '@hotcell\tstart\t%s\t%s\n' "$program" "$PWD"
} >"$now"
cat "$now"
# One write: packages are tested at the same time.
cat "$now" >>"$report"
any=
! grep -q "^@hotcell${tab}test${tab}" "$now" || any=1
if [ -n "$listing" ]; then
    # A program without tests belongs to no part of a suite, so the list tells how it ends, as a run of all tests does.
    if [ -n "$any" ] || [ "$pattern" != . ]; then
        rm -rf "$now"
        exit 0
    fi
    set -- "$@" -test.run='^$'
fi
# Written only by a program that came to its own end.
end=$now.end
if [ -n "$each" ] && [ -n "$any" ]; then
    # A panic ends the program, and would hide the tests after it. Names of tests have no special characters.
    code=0 came=whole
    awk -F "$tab" '$2 == "test" { print $4 }' "$now" >"$now.each"
    while IFS= read -r test <&3; do
        rm -rf "$end"
        "$@" -test.run="^$test\$" -test.memprofile="$end" 3<&- || code=$?
        [ -s "$end" ] || came=cut
    done 3<"$now.each"
    rm -rf "$now.each"
else
    "$@" -test.memprofile="$end"
    code=$?
    came=cut
    [ ! -s "$end" ] || came=whole
fi
rm -rf "$now" "$end"
said=$code
# Failure of a program that ends with 0 by itself before its tests are done: `go` would take it for good. Where a pattern chose no
# test of it, it may end as it likes.
if [ "$code$came" = 0cut ] && { [ -n "$any" ] || [ "$pattern" = . ]; }; then
    code=1
fi
printf '@hotcell\tend\t%s\t%s %s\n' "$program" "$code" "$came" >>"$report"
# As `go test` says it where it does not write JSON: of a program that ends by itself it may be all that there is.
[ "$code" = 0 ] || printf 'exit status %s\n' "$said"
exit "$code"
