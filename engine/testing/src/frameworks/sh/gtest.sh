# hotcell's. Builds a project's Google Tests and starts one program after the other. What is said here is said before and
# after a program, never by it; the report gets the same lines, and what each program wrote.
report=$1 build=$2 jobs=$3 stop=$4 filter=$5 only=$6 cover=$7 top=$PWD
tab=$(printf '\t') unit=$(printf '\037') bad=0 whole=
[ "$filter" != '*' ] || whole=all
mkdir -p "${report%/*}" "$build"
say() { printf '@hotcell\t%s\t%s\t%s\n' "$1" "$2" "$3"; }
lacks() {
    say missing - "$1"
    exit 86
}
# Each file's first error, as compilers and CMake write it; without any, the end of what was printed.
broken() {
    bad=1
    cat "$build/log" >&2
    awk -v top="$top/" -v tab="$tab" -v fallback="$1" '
        function told(file, line, text) {
            sub(/^\.\//, "", file)
            if (index(file, top) == 1) file = substr(file, length(top) + 1)
            if (!(file in seen)) printf "@hotcell%sbroken%s%s%s%s %s\n", tab, tab, file, tab, line, text
            seen[file] = any = 1
        }
        match($0, /^[^ :]+:[0-9]+:([0-9]+:)? (fatal )?error: /) {
            split($0, place, ":")
            told(place[1], place[2], substr($0, RLENGTH + 1))
        }
        /undefined reference to / { text = $0; sub(/.*undefined/, "undefined", text); linked = text }
        /^CMake Error at / { split($4, place, ":"); configured = place[1]; at = place[2]; next }
        configured != "" && !(configured in seen) && NF { sub(/^ +/, ""); told(configured, at, $0) }
        NF { last = $0 }
        END { if (!any) told(fallback, 0, linked == "" ? last : linked) }' "$build/log"
}
# A program of Google Test, linked with it either way.
tests() {
    [ "$(head -c 4 "$1" | tr -d '\177')" = ELF ] && grep -aqe gtest_list_tests -e 'libgtest[_a-z]*\.so' "$1"
}
programs() { find "$1" -name CMakeFiles -prune -o -name '*[[:cntrl:]]*' -prune -o -type f -perm -u+x ! -name '*.so*' -print | sort; }
sources() {
    find . -name '.*' ! -name . -prune -o -name '*[[:cntrl:] ]*' -prune -o -type f \
        \( -name '*.cc' -o -name '*.cpp' -o -name '*.cxx' \) -print | sort
}
# Sources that have this; none is not all that comes on standard input.
having() { xargs -r grep -lE "$1" </dev/stdin 2>/dev/null; }

# What is compiled counts its lines, and leaves the counts beside its objects when it ends.
counting=
if [ -n "$cover" ]; then
    command -v gcov >/dev/null || lacks gcov
    counting=--coverage
    export CFLAGS="$CFLAGS --coverage" CXXFLAGS="$CXXFLAGS --coverage" LDFLAGS="$LDFLAGS --coverage"
fi

where=$build
if [ -f CMakeLists.txt ]; then
    command -v cmake >/dev/null || lacks cmake
    command -v make >/dev/null || command -v ninja >/dev/null || lacks make
    command -v c++ >/dev/null || lacks g++
    set -- -DCMAKE_BUILD_TYPE=Debug -DFETCHCONTENT_FULLY_DISCONNECTED=ON
    # What a project would fetch is there, where Google Test is installed as source.
    for name in GOOGLETEST GTEST; do
        [ ! -d /usr/src/googletest ] || set -- "$@" "-DFETCHCONTENT_SOURCE_DIR_$name=/usr/src/googletest"
    done
    IFS='
'
    set -f
    # shellcheck disable=SC2086 # a word for each line
    set -- "$@" $HOTCELL_BUILD_ARGS
    set +f
    unset IFS HOTCELL_BUILD_ARGS
    if ! cmake -S . -B "$build" "$@" >"$build/log" 2>&1; then
        ! grep -qE 'find GTest|GTestConfig.cmake' "$build/log" || lacks gtest
        broken CMakeLists.txt
    else
        keep=-k
        [ ! -f "$build/build.ninja" ] || keep=-k0
        cmake --build "$build" --parallel "$jobs" -- $keep >"$build/log" 2>&1 || broken CMakeLists.txt
        # Each test of ctest: whether it starts its program as the first test of that does, the program, its name, the folder that
        # the project wants it started in, and its arguments and variables, without those of Google Test.
        (cd "$build" && ctest --show-only=json-v1 2>/dev/null) | awk -v tab="$tab" -v unit="$unit" '
            function text(line) { sub(/^[^"]*"/, "", line); sub(/",?$/, "", line); return line }
            function value(line) { sub(/^[^:]*: "/, "", line); sub(/",?$/, "", line); return line }
            function tell(how) {
                if (program == "") return
                how = words tab variables
                if (!(program in first)) first[program] = how
                print (how == first[program] ? "same" : "other") tab program tab name tab place tab how
            }
            /^[[:space:]]*"command" :[[:space:]]*$/ { tell(); program = name = place = words = variables = ""; part = "command"; next }
            part != "" && /^[[:space:]]*\]/ { if (part == "command") part = "name"; else part = ""; next }
            part == "command" && /^[[:space:]]*"/ {
                if (program == "") program = text($0)
                else if ($0 !~ /"--gtest_/) words = words text($0) unit
                next
            }
            part == "name" && /^[[:space:]]*"name" :/ { name = value($0); part = ""; next }
            /"name" : "WORKING_DIRECTORY"/ { part = "place"; next }
            part == "place" && /"value" :/ { place = value($0); part = ""; next }
            /"name" : "ENVIRONMENT"/ { part = "variables"; next }
            part == "variables" && /^[[:space:]]*"[^"]*=/ { variables = variables text($0) unit }
            END { tell() }' >"$build/tested"
    fi
elif suites=$(sources | having '^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"](gtest|gmock)/') && [ -n "$suites" ]; then
    command -v c++ >/dev/null || lacks g++
    # shellcheck disable=SC2086 # one word or none
    set -- -std=c++17 -g $counting -I. -Iinclude -Isrc
    printf '#include <gtest/gtest.h>\n' | c++ "$@" -E -x c++ - >/dev/null 2>&1 || lacks gtest
    libraries='-lgtest_main -lgtest'
    [ -z "$(printf '%s\n' "$suites" | having '[<"]gmock/')" ] || libraries='-lgmock_main -lgmock -lgtest'
    # Everything else that has no `main` of its own belongs to each program.
    mains=$(sources | having '(^|[[:space:]])int[[:space:]]+main[[:space:]]*\(')
    objects=
    for source in $(sources); do
        case "
$suites
$mains
" in *"
$source
"*) continue ;; esac
        object=$build/objects/$source.o
        mkdir -p "${object%/*}"
        if c++ "$@" -c "$source" -o "$object" >"$build/log" 2>&1; then objects="$objects $object"; else broken "${source#./}"; fi
    done
    for source in $suites; do
        program=$build/${source#./}
        program=${program%.*}
        mkdir -p "${program%/*}"
        # shellcheck disable=SC2086 # lists of words without spaces
        c++ "$@" "$source" $objects $libraries -lpthread -o "$program" >"$build/log" 2>&1 || broken "${source#./}"
    done
    [ -n "$cover" ] || rm -rf "$build/objects"
else
    where=.
fi

# How ctest starts a program of Google Test: by the first test that does.
given() { awk -F "$tab" -v file="$1" -v field="$2" '$2 == file { print $field; exit }' "$build/tested" 2>/dev/null; }
# The program with the project's own arguments and variables, and with these.
started() (
    IFS=$unit
    set -f
    # shellcheck disable=SC2046 # a word for each of them
    for pair in $(given "$file" 6); do export "${pair?}"; done
    # shellcheck disable=SC2046
    exec "$file" $(given "$file" 5) "$@"
)
# Whether the filter, a list of patterns, has this name. Patterns made of ids lack some characters.
asked() (
    IFS=:
    set -f
    for pattern in $filter; do
        # shellcheck disable=SC2254 # a pattern
        case $1 in $pattern) return 0 ;; esac
        [ "$(printf '%s' "$1" | tr -d '|()*?^$\\:')" != "$pattern" ] || return 0
    done
    return 1
)
# Of ctest, what is no program of Google Test, or starts one in another way than above: ctest runs it, and says how it ended.
known='' is='' listed=''
if [ -f "$build/tested" ] && { [ -z "$only" ] || [ "$only" = ctest ]; }; then
    while IFS=$tab read -r kind file name _ <&4; do
        [ "$file" = "$known" ] || { known=$file is=; tests "$file" 2>/dev/null && is=gtest; }
        [ "$kind$is" != samegtest ] || continue
        shown=$(printf '%s' "$name" | tr -d '[:cntrl:]')
        asked "$shown" || continue
        if [ -n "$HOTCELL_LIST" ]; then
            [ -n "$listed" ] || say program ctest >>"$report"
            listed=1
            say test ctest "$shown" >>"$report"
            continue
        fi
        say step "ctest::$shown"
        code=0 skip=run
        quoted=$(printf '%s' "$name" | sed 's/[][\\.*^$+?()|]/\\&/g')
        (cd "$build" && ctest -R "^$quoted\$" --output-on-failure --no-tests=error) >"$build/log" 2>&1 </dev/null || code=$?
        cat "$build/log" >&2
        # A disabled test is no test for ctest, which fails then.
        ! grep -qE '\*\*\*(Skipped|Not Run \(Disabled\))' "$build/log" || code=0 skip=skipped
        [ "$code" = 0 ] || bad=1
        {
            say program "ctest::$shown"
            say end "ctest::$shown" "$code $skip"
        } >>"$report"
        why=$(awk '/ Test .*\*\*\*/ { sub(/.*\*\*\*/, ""); sub(/ +[0-9.]+ sec.*/, ""); print; exit }' "$build/log")
        say stepped "ctest::$shown" "$code $skip $why"
    done 4<"$build/tested"
fi
for file in $(programs "$where" | sed 's/ /\v/g'); do
    file=$(printf '%s' "$file" | tr '\v' ' ')
    tests "$file" || continue
    program=${file#"$where"/}
    [ -z "$only" ] || [ "$only" = "$program" ] || continue
    # Where ctest would start it.
    cd "$top"
    if [ -f CMakeLists.txt ]; then
        place=$(given "$file" 4)
        cd "${place:-${file%/*}}" 2>/dev/null || cd "${file%/*}"
    fi
    case $file in /*) ;; *) file=$top/$file ;; esac
    listed=0
    started --gtest_list_tests --gtest_filter="$filter" >"$build/list" 2>"$build/said" </dev/null || listed=$?
    {
        say program "$program"
        awk -v head="@hotcell${tab}test${tab}$program${tab}" '
            { sub(/  # .*/, "") }
            /^[^ ].*\.$/ { suite = $0; next }
            /^  [^ ]/ && suite != "" { print head suite substr($0, 3) }' "$build/list"
        say start "$program" "$whole"
    } >"$build/now"
    if ! grep -q "^@hotcell${tab}test" "$build/now"; then
        # One that ends badly before it has listed anything may have had any tests.
        if [ "$listed" != 0 ]; then
            bad=1
            cat "$build/said" >&2
            # The shell's own word for a signal stands last, below the reason.
            why=$(awk '
                NF { gsub(/[[:cntrl:]]/, " "); sub(/^ +/, ""); before = last; last = text; text = $0 }
                END {
                    all = (before == "" ? "" : before " / ") (last == "" ? "" : last " / ") text
                    print substr(all, 1, 1000)
                }' "$build/said")
            say broken "$program" "0 it ended with status $listed before it listed its tests${why:+: $why}"
        # Google Test names the body of each test in this way, mangled.
        elif [ "$filter" = '*' ] && grep -aq '_Test8TestBodyEv' "$file"; then
            bad=1
            say broken "$program" "0 it holds tests and lists none: its main has to give its arguments to testing::InitGoogleTest, and to return RUN_ALL_TESTS()"
        fi
        continue
    fi
    cat "$build/now" >>"$report"
    cat "$build/now"
    [ -z "$HOTCELL_LIST" ] || continue
    rm -rf "$build/xml"
    started --gtest_output="xml:$build/xml" --gtest_color=no --gtest_filter="$filter" ${stop:+--gtest_fail_fast} </dev/null
    code=$?
    [ "$code" = 0 ] || bad=1
    # Its own report is written by a program that comes to the end of its tests. One that ends before has failed, whatever its status.
    came=cut
    if [ -f "$build/xml" ]; then
        came=whole
        say file "$program" "$(wc -c <"$build/xml")" >>"$report"
        cat "$build/xml" >>"$report"
        echo >>"$report"
    fi
    [ "$came" = whole ] || bad=1
    say end "$program" "$code $came" >>"$report"
    echo
    say end "$program" "$code $came"
    [ -z "$stop" ] || [ "$code" = 0 ] || break
done
# Of the project's own files: paths below it become relative, and only those are told.
if [ -n "$cover" ]; then
    cd "$build" && find . -name '*.gcda' -print0 | xargs -0 -r gcov --json-format --stdout -r -s "$top" >"$build/counts" 2>/dev/null
    [ ! -s "$build/counts" ] || mv "$build/counts" "$cover"
fi
say 'done' - "$bad" >>"$report"
say 'done' - "$bad"
exit "$bad"
