# hotcell's. `go test` starts every test program through this. What is said here is said before and after a program,
# never by it; the report gets the same lines.
report=$1
shift
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
    list=$("$1" -test.list="$pattern" 2>/dev/null </dev/null)
    # What TestMain prints before the list may end within a line. A list of nothing shows it alone.
    if printf '%s\n' "$list" | grep -qv '^\(Test\|Example\|Fuzz\|Benchmark\)'; then
        list=${list#"$("$1" -test.list='^$' 2>/dev/null </dev/null)"}
    fi
    printf '%s\n' "$list" |
        sed -n "s/^\(Test\|Example\|Fuzz\)\(.*\)\$/@hotcell${tab}test${tab}$program${tab}\1\2/p"
    printf '@hotcell\tstart\t%s\t%s\n' "$program" "$PWD"
} >"$now"
cat "$now"
# One write: packages are tested at the same time.
cat "$now" >>"$report"
if [ -n "$HOTCELL_LIST" ]; then
    rm -rf "$now"
    exit 0
fi
# Written only by a program that came to its own end.
end=$now.end
"$@" -test.memprofile="$end"
code=$?
came=cut
[ ! -s "$end" ] || came=whole
rm -rf "$now" "$end"
printf '@hotcell\tend\t%s\t%s %s\n' "$program" "$code" "$came" >>"$report"
exit "$code"
