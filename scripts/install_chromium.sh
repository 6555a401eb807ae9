#!/bin/sh
# See to it that there is a Chromium, which only the tests of the Schematizer's pages use. Run it by `make test`.
# Where it cannot be had this says so and ends well: those tests are skipped then, with that reason.
set -eu
cd "$(dirname "$0")/.."

say() { printf '%s\n' "test: $*" >&2; }

has_chromium() {
    command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null
}

if has_chromium; then exit 0; fi
if ! command -v apt-get >/dev/null; then
    say "no Chromium, and no apt-get to install it with; the tests of web pages are skipped"
    exit 0
fi
if [ "$(id -u)" -eq 0 ]; then
    as_root=
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root="sudo -n"
else
    say "no Chromium; the tests of web pages are skipped. To run them, type: sudo apt-get install -y chromium"
    exit 0
fi
say "installing chromium, for the tests of web pages"
# It is a list of words on purpose.
# shellcheck disable=SC2086
timeout 900 $as_root sh scripts/install_packages.sh chromium >/dev/null || true
has_chromium || say "chromium cannot be had here; the tests of web pages are skipped"
