# Shared by the scripts of this folder; sourced, not run.
# shellcheck shell=bash

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$top"
root=$([[ $(id -u) == 0 ]] && echo 1 || echo 0)
ci=$([[ ${CI:-} == true ]] && echo 1 || echo 0)
target=${CARGO_TARGET_DIR:-$top/target}
[[ $target == /* ]] || target=$top/$target

# our_cargo WORD...: cargo for our own crates. With WITH_LINTS=1 clippy's compiler builds them, warnings denied: what is linted is
# what is tested, and no dependency is compiled a second time to be checked.
our_cargo() {
    if [[ ${WITH_LINTS:-} == 1 ]]; then
        RUSTC_WORKSPACE_WRAPPER=$(rustc --print sysroot)/bin/clippy-driver \
            CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__ cargo "$@"
    else
        cargo "$@"
    fi
}

# tenths: of cargo's output with progress, its messages, and a line for each tenth of the crates that is done. A terminal shows a bar of cargo's own.
tenths() {
    awk -v RS='[\r\n]+' '
        match($0, / [0-9]+\/[0-9]+/) && /Building/ {
            split(substr($0, RSTART + 1, RLENGTH - 1), n, "/")
            if (int(10 * n[1] / n[2]) > done) { done = int(10 * n[1] / n[2]); printf "%d of %d crates are compiled\n", n[1], n[2]; fflush() }
            next
        }
        !/^ *Compiling / { print; fflush() }'
}

bold() { if [[ -t 1 && -z ${NO_COLOR:-} ]]; then printf '\033[1m%s\033[0m\n' "$*"; else printf '%s\n' "$*"; fi; }
step() { echo; bold "== $* ($(date +%H:%M:%S))"; }
die() { printf '%s\n' "$*" >&2; exit 1; }

# need_room GB [BUILT]: GB are free where things are built and where temporary files go. A full disk makes tests fail in ways that
# do not say so. With BUILT, what the target folder holds already counts for up to BUILT of them.
need_room() {
    local folder free built=0
    mkdir -p "$target"
    if [[ -n ${2:-} && -d $target/debug ]]; then
        built=$(du -s --block-size=1G "$target/debug" | cut -f 1)
        built=$((built < $2 ? built : $2))
    fi
    for folder in "$target" "${TMPDIR:-/tmp}"; do
        free=$(df --output=avail -B1G "$folder" | tail -n 1)
        ((free >= $1 - built)) || die "$folder has $((free)) GB free, and $(($1 - built)) are needed: make room, or set CARGO_TARGET_DIR and TMPDIR"
    done
}

# The Debian package of each thing that a script may need, and how to see that it is there.
has() {
    case $1 in
    gcc) command -v cc >/dev/null ;;
    libc6-dev) [[ -n $(find /usr/lib -maxdepth 2 -name libc.a -print -quit 2>/dev/null) ]] ;;
    python3) [[ -x /usr/bin/python3 ]] && /usr/bin/python3 -I -c 'import ctypes, mmap, json, ssl' 2>/dev/null ;;
    python3-venv) [[ -x /usr/bin/python3 ]] && /usr/bin/python3 -I -c 'import ensurepip, venv' 2>/dev/null ;;
    nodejs) [[ -x /usr/bin/node ]] ;;
    golang-go) command -v go >/dev/null ;;
    libgtest-dev) [[ -f /usr/include/gtest/gtest.h ]] ;;
    cmake | make | openssl) command -v "$1" >/dev/null ;;
    g++) command -v c++ >/dev/null ;;
    default-jdk-headless) command -v javac >/dev/null ;;
    redis-server) command -v redis-server >/dev/null ;;
    postgresql) compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null ;;
    pgtap) compgen -G '/usr/share/postgresql/*/extension/pgtap.control' >/dev/null ;;
    npm) command -v npm >/dev/null ;;
    bubblewrap) command -v bwrap >/dev/null ;;
    docker-registry) [[ -x /usr/bin/docker-registry ]] ;;
    util-linux) command -v setpriv >/dev/null && command -v unshare >/dev/null ;;
    busybox-static) [[ -x /bin/busybox || -x /usr/bin/busybox ]] ;;
    qemu-system-x86) command -v qemu-system-x86_64 >/dev/null ;;
    cpio) command -v cpio >/dev/null ;;
    xz-utils) command -v xz >/dev/null ;;
    zstd) command -v zstd >/dev/null ;;
    e2fsprogs) PATH=$PATH:/usr/sbin:/sbin command -v mkfs.ext4 >/dev/null ;;
    *) dpkg -s "$1" >/dev/null 2>&1 ;;
    esac
}

# missing PACKAGE...: those that are not there
missing() {
    local package
    for package; do has "$package" || echo "$package"; done
}

# provide PACKAGE...: what is missing, as root; an ordinary user is told. Status 1: something is still missing.
provide() {
    local lacking
    mapfile -t lacking < <(missing "$@")
    ((${#lacking[@]})) || return 0
    if ((root)) && command -v apt-get >/dev/null; then
        step "installing ${lacking[*]}"
        local log
        log=$(mktemp)
        # Once more after a pause: mirrors have bad moments.
        local attempt
        for attempt in 1 2; do
            if apt-get update -q >"$log" 2>&1 &&
                DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${lacking[@]}" >>"$log" 2>&1; then
                break
            fi
            [[ $attempt == 2 ]] || sleep 10
        done
        mapfile -t lacking < <(missing "$@")
        ((${#lacking[@]} == 0)) || tail -n 5 "$log" >&2
        rm -f "$log"
    fi
    ((${#lacking[@]})) || return 0
    echo "missing: ${lacking[*]}"
    echo "  sudo apt-get install ${lacking[*]}"
    return 1
}

# cargo and rustc of at least the workspace's version, and a C compiler as linker: nothing goes without.
need_rust() {
    local want have
    # rustup puts cargo there; a shell that was open before does not know.
    [[ ! -d ${CARGO_HOME:-${HOME:-/root}/.cargo}/bin ]] || PATH=$PATH:${CARGO_HOME:-${HOME:-/root}/.cargo}/bin
    want=$(sed -nE 's/^rust-version = "(.*)"/\1/p' Cargo.toml)
    command -v cargo >/dev/null ||
        die "cargo is missing: install Rust $want or newer with rustup (https://rustup.rs), then run this again"
    have=$(rustc --version | cut -d ' ' -f 2)
    [[ $(printf '%s\n' "$want" "$have" | sort -V | head -n 1) == "$want" ]] ||
        die "rustc is $have and hotcell needs $want: rustup update stable, then run this again"
    provide gcc libc6-dev || die "hotcell is linked by a C compiler; install the packages, then run this again"
}
