# Sourced by ./run and ./check: finds or installs what they need. Nothing here compiles anything.
#
# Missing tools come from rustup if it may download (RUSTUP_AUTO_INSTALL is not 0), otherwise from
# Debian packages (as root, or through sudo). If neither works, a sentence says what to install.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

target=${CARGO_TARGET_DIR:-target}
[[ $target == /* ]] || target=$PWD/$target
oldest_rust=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
wasm=wasm32-unknown-unknown

# Cargo tags every target directory that it makes. Ours needs the tag, too: backups skip tagged
# folders, and `webbuild` recognises the directory by its tag.
make_target() {
    [ -e "$target/CACHEDIR.TAG" ] && return
    mkdir -p "$target"
    printf '%s\n' 'Signature: 8a477f597d28d172789f06886806bc55' >"$target/CACHEDIR.TAG"
}

say() { printf '==> %s\n' "$*" >&2; }
die() { printf '\nerror: %s\n' "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# Whole gigabytes that are free where we build; nothing where the system does not say it.
free_gb() { df -Pk "$target" 2>/dev/null | awk 'NR == 2 { print int($4 / 1000000) }' || true; }

# warn_of_room GIGABYTES: says so if less is free. A full disk stops the compiler after minutes, and
# what it says then names one of its own files.
warn_of_room() {
    local free
    free=$(free_gb)
    [ "${free:-$1}" -ge "$1" ] ||
        say "only $free GB are free for $target, and a build from nothing writes up to $1 GB:" \
            "make room, or name a folder on another disk with CARGO_TARGET_DIR"
}

# ---------------------------------------------------------------------------------------- packages

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif ! have sudo; then return 1
    elif [ -t 0 ]; then sudo "$@"
    else sudo -n "$@"
    fi
}

installed() { [[ $(dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null || true) == ii* ]]; }

# The lists themselves have the mirror's dates. But apt changes its `partial` folder at each update.
lists_are_fresh() {
    compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null &&
        [ -n "$(find /var/lib/apt/lists/partial -maxdepth 0 -mtime -1 2>/dev/null)" ]
}

apt_install() {
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y --no-install-recommends "$@" </dev/null >&2
}

# install_packages NAME...: installs those that are missing. Fails if it cannot.
install_packages() {
    local missing=() name
    have dpkg-query && have apt-get || return 1
    for name; do installed "$name" || missing+=("$name"); done
    [ ${#missing[@]} -gt 0 ] || return 0
    if ! as_root true; then
        say "installing Debian packages takes root or sudo"
        return 1
    fi
    say "installing Debian packages: ${missing[*]}"
    if lists_are_fresh && apt_install "${missing[@]}"; then return 0; fi
    as_root apt-get update </dev/null >&2 && apt_install "${missing[@]}"
}

upgrade_packages() {
    say "upgrading Debian packages: $*"
    as_root apt-get update </dev/null >&2 && apt_install "$@"
}

# -------------------------------------------------------------------------------------------- Rust

rustup_may_download() { have rustup && [ "${RUSTUP_AUTO_INSTALL:-1}" != 0 ]; }
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]; }

rust_is_recent() {
    local version
    version=$(cargo --version 2>/dev/null | cut -d ' ' -f 2) && at_least "${version:-0}" "$oldest_rust"
}

need_rust() {
    rust_is_recent && return
    # If there is a rustup, it decides which Rust is used, and Debian's Rust would not be.
    if ! have rustup && install_packages rustc-web cargo-web && rust_is_recent; then return; fi
    die "Rust $oldest_rust or newer is needed: install it from https://rustup.rs, or update it" \
        "with \`rustup update stable\`."
}

need_c_compiler() {
    have cc || install_packages gcc libc6-dev ||
        die "a C compiler is needed for the bundled SQLite: install gcc (Debian: gcc libc6-dev)."
}

has_wasm_target() {
    local libdir
    libdir=$(rustc --print target-libdir --target $wasm 2>/dev/null) &&
        compgen -G "$libdir/libcore-*" >/dev/null
}

has_rust_src() {
    [ -e "$(rustc --print sysroot 2>/dev/null)/lib/rustlib/src/rust/library/std/Cargo.toml" ]
}

# Debian's rust-lld is a link to an lld in a package that is not installed with it. If the target of
# the link is missing, prints the target, which is also the name of that package.
missing_lld() {
    local dir link
    while IFS= read -r -d : dir; do
        link=$dir/rust-lld
        if [ -L "$link" ] && [ ! -e "$link" ]; then basename "$(readlink "$link")"; return; fi
    done <<<"$PATH:"
}

# Installs Debian's Rust next to rustup's: it has the sources of std, which are compiled once.
install_debian_wasm() {
    install_packages rustc-web cargo-web rust-web-src rust-web-llvm "$@" || return 1
    local lld version
    lld=$(missing_lld)
    [ -z "$lld" ] || install_packages "$lld" || return 1
    version=$(dpkg-query -W -f '${Version}' rustc-web)
    at_least "$version" "$oldest_rust" || upgrade_packages rustc-web cargo-web "$@"
}

need_wasm() {
    has_wasm_target && return
    if rustup_may_download; then
        say "adding the target $wasm to the active Rust toolchain"
        if rustup target add $wasm >&2 && has_wasm_target; then return; fi
    fi
    install_debian_wasm "$@" || has_rust_src ||
        die "Rust cannot build for the browser here: run \`rustup target add $wasm\`."
}

# need_lints: rustfmt and clippy for the active toolchain.
need_lints() {
    cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1 && return
    if rustup_may_download; then
        say "adding rustfmt and clippy to the active Rust toolchain"
        if rustup component add rustfmt clippy >&2; then return; fi
    elif ! have rustup && install_packages rustfmt-web rust-web-clippy; then
        return
    fi
    die "rustfmt and clippy are needed: run \`rustup component add rustfmt clippy\`."
}

# ----------------------------------------------------------------------------------------- browser

has_browser() {
    local name found=${CHROMIUM:-}
    for name in chromium chromium-browser google-chrome chrome; do
        [ -n "$found" ] || ! have $name || found=$name
    done
    [ -n "$found" ] && { [ -n "${CHROMEDRIVER:-}" ] || have chromedriver; }
}

has_firefox() { [ -n "${FIREFOX:-}" ] || have firefox-esr || have firefox; }

need_browser() {
    has_browser || install_packages chromium chromium-driver ||
        die "the browser tests need Chromium and its driver: install both, or set CHROMIUM and" \
            "CHROMEDRIVER to where they are."
    has_firefox || install_packages firefox-esr ||
        die "the browser tests need Firefox too: install it, or set FIREFOX to where it is."
}

# ---------------------------------------------------------------------------------------- progress

# Shows the log of the front end's build while cargo waits for that build.
follow_web_build() {
    make_target
    mkdir -p "$target/web"
    : >"$target/web/progress.log"
    tail -n 0 -F "$target/web/progress.log" >&2 2>/dev/null &
    follower=$!
    trap stop_following EXIT
}

# Starts the front end's build early: cargo would begin it last, and wait for it with an idle
# processor. `server/build.rs` uses what is built here, and reports an error if that fails. With a
# folder, the page without a server follows into it: what the two share is compiled once.
start_web_build() {
    {
        web_build embed "$target/web" "$target"
        [ -z "${1:-}" ] || web_build page "$1" "$target"
    } >/dev/null 2>&1 &
}

# $WEBBUILD is a webbuild that is built already; `server/build.rs` runs it too.
unset WEBBUILD
web_build() {
    if [ -n "${WEBBUILD:-}" ]; then
        "$WEBBUILD" "$@"
    else
        cargo run -q -p webbuild --target-dir "$target/webbuild" -- "$@"
    fi
}

stop_following() {
    [ -n "${follower:-}" ] || return 0
    kill "$follower" 2>/dev/null || true
    wait "$follower" 2>/dev/null || true
    follower=
}
