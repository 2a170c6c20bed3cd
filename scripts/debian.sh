# Debian packages, unpacked and not installed; sourced, not run. The caller has `die`.
# shellcheck shell=bash

# The mirror of this machine's own apt sources: mirror debian | mirror debian-security
mirror() {
    local given=${HOTCELL_DEBIAN_MIRROR:-}
    [[ $1 == debian ]] || given=${HOTCELL_DEBIAN_SECURITY_MIRROR:-}
    if [[ -n $given ]]; then echo "${given%/}"; return; fi
    # Known from the sources alone, also where the package lists were never read.
    apt-get update --print-uris 2>/dev/null | sed -nE "s,^'(.*/$1)/+dists/.*,\1,p" | awk 'NR == 1'
}

# packages FOLDER SUITE TOP-PACKAGES PATTERN...: unpacks the packages that TOP-PACKAGES lead to and whose
# names match, below FOLDER/tree, and leaves their names and versions in FOLDER/packages. apt checks the
# signature of the suite and the digest of each package.
packages() {
    local folder=$1 suite=$2 tops=$3 main security keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    shift 3
    main=$(mirror debian) && [[ -n $main ]] ||
        die "no Debian mirror among this machine's apt sources; set HOTCELL_DEBIAN_MIRROR"
    [[ -r $keyring ]] || die "$keyring is missing (package debian-archive-keyring)"
    mkdir -p "$folder"/{state/lists/partial,cache/archives/partial,debs,tree}
    : >"$folder/status"
    echo "deb [signed-by=$keyring] $main $suite main" >"$folder/sources.list"
    case $suite in
    sid | *-backports) ;;
    *)
        security=$(mirror debian-security) || true
        echo "deb [signed-by=$keyring] $main $suite-updates main" >>"$folder/sources.list"
        [[ -z $security ]] ||
            echo "deb [signed-by=$keyring] $security $suite-security main" >>"$folder/sources.list" ;;
    esac
    local options=(-q -o "Dir::Etc::sourcelist=$folder/sources.list" -o Dir::Etc::sourceparts=/dev/null
        -o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null
        -o "Dir::State=$folder/state" -o "Dir::State::status=$folder/status" -o "Dir::Cache=$folder/cache"
        -o Acquire::Languages=none -o APT::Architecture=amd64 -o APT::Architectures::=amd64
        -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false
        -o Acquire::IndexTargets::deb::CNF::DefaultEnabled=false
        -o Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false)
    [[ $(id -u) != 0 ]] || options+=(-o APT::Sandbox::User=root)
    apt-get "${options[@]}" -o APT::Update::Error-Mode=any update >"$folder/log" 2>&1 ||
        { tail -n 5 "$folder/log" >&2; die "could not read the package lists of $suite"; }
    local pattern names=() all
    # shellcheck disable=SC2086 # a list of names
    all=$(apt-cache "${options[@]}" depends --recurse --no-recommends --no-suggests --no-conflicts \
        --no-breaks --no-replaces --no-enhances $tops 2>>"$folder/log" | grep -E '^[a-z0-9]' |
        sort -u)
    for pattern in "$@"; do
        mapfile -t -O "${#names[@]}" names < <(grep -E "^$pattern(:amd64)?\$" <<<"$all" || true)
    done
    ((${#names[@]})) || die "$suite has no package like '$*' below $tops"
    (cd "$folder/debs" && apt-get "${options[@]}" download "${names[@]}") >>"$folder/log" 2>&1 ||
        { tail -n 5 "$folder/log" >&2; die "could not fetch ${names[*]}"; }
    local deb
    for deb in "$folder"/debs/*.deb; do
        dpkg-deb -x "$deb" "$folder/tree"
        dpkg-deb -W --showformat='${Package} ${Version}\n' "$deb"
    done >"$folder/packages"
}
