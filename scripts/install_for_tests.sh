#!/bin/sh
# See to it that there is what only tests use: a Chromium, Azurite with the Node.js that runs it, and Prometheus. Run it by `make test`.
# What cannot be had is named, and the script ends well: the tests of it are skipped then, with that reason.
set -eu
cd "$(dirname "$0")/.."

# The packages of Azurite are locked with their checksums. npm's scripts are not run: none of these needs any.
azurite=${XDG_CACHE_HOME:-$HOME/.cache}/penstock/azurite
azurite_lock=scripts/azurite/package-lock.json

prometheus=${XDG_CACHE_HOME:-$HOME/.cache}/penstock/prometheus

say() { printf '%s\n' "test: $*" >&2; }

has_chromium() {
    command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null
}

has_node() { command -v node >/dev/null && command -v npm >/dev/null; }

has_azurite() { command -v node >/dev/null && cmp -s "$azurite_lock" "$azurite/package-lock.json"; }

has_prometheus() { command -v prometheus >/dev/null || [ -x "$prometheus/usr/bin/prometheus" ]; }

# install WHAT_FOR PACKAGE...: Debian's packages, where we may.
install() {
    what_for=$1
    shift
    if ! command -v apt-get >/dev/null; then
        say "no $*, and no apt-get to install it with; the tests of $what_for are skipped"
        return
    fi
    if [ "$(id -u)" -eq 0 ]; then
        as_root=
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        as_root="sudo -n"
    else
        say "no $*; the tests of $what_for are skipped. To run them, type: sudo apt-get install -y $*"
        return
    fi
    say "installing $*, for the tests of $what_for"
    # It is a list of words on purpose.
    # shellcheck disable=SC2086
    timeout 900 $as_root sh scripts/install_packages.sh "$@" >/dev/null || true
}

# Whole or not at all, also when two of these run at once.
install_azurite() {
    say "fetching Azurite into $azurite, for the tests of Azure"
    mkdir -p "${azurite%/*}"
    passing=$(mktemp -d "$azurite.XXXXXX")
    trap 'rm -rf "$passing"' EXIT
    cp scripts/azurite/package.json "$azurite_lock" "$passing"
    if (cd "$passing" && timeout 900 npm ci --ignore-scripts --omit=optional --no-audit --no-fund --loglevel=error >&2); then
        rm -rf "$azurite"
        # -T: not into the directory of another that was quicker.
        mv -T "$passing" "$azurite" 2>/dev/null || true
    fi
}

# Its programs alone, without installing anything. Whole or not at all, also when two of these run at once.
fetch_prometheus() {
    say "fetching Prometheus into $prometheus, for the tests of metrics"
    mkdir -p "${prometheus%/*}"
    unpacking=$(mktemp -d "$prometheus.XXXXXX")
    if (cd "$unpacking" && timeout 300 apt-get download prometheus >/dev/null 2>&1 && dpkg -x prometheus_*.deb . && rm -f prometheus_*.deb); then
        mv -T "$unpacking" "$prometheus" 2>/dev/null || true
    fi
    rm -rf "$unpacking"
}

if ! has_prometheus; then
    if command -v apt-get >/dev/null; then fetch_prometheus; fi
    has_prometheus || say "Prometheus cannot be had here; the tests of its rules are skipped"
fi
if ! has_chromium; then
    install "web pages" chromium
    has_chromium || say "chromium cannot be had here; the tests of web pages are skipped"
fi
if ! has_azurite; then
    has_node || install "Azure" nodejs npm
    if has_node; then install_azurite; fi
    has_azurite || say "Azurite cannot be had here; the tests of Azure are skipped"
fi
