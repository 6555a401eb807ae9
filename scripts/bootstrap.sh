#!/bin/sh
# Make this checkout ready: system packages that are missing, .venv from the lock file, the pinned jars.
# Run it by `make setup`. Exit code 2: something must be installed first; the command to type is printed.
set -eu
cd "$(dirname "$0")/.."

say() { printf '%s\n' "setup: $*" >&2; }

# A Python of at least 3.11 that can make virtual environments; Debian splits ensurepip off into python3-venv.
find_python() {
    for candidate in python3 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
}

# The feature release of the Java that JAVA_HOME or PATH leads to, 0 if there is none.
java_release() {
    java=java
    if [ -n "${JAVA_HOME:-}" ] && [ -x "$JAVA_HOME/bin/java" ]; then java=$JAVA_HOME/bin/java; fi
    release=$("$java" -version 2>&1 | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9]\{1,\}\).*/\2/p' | head -n 1) || true
    printf '%s\n' "${release:-0}"
}

missing_packages() {
    if [ -z "$(find_python)" ]; then printf ' python3-venv'; fi
    # Java 17 or newer wherever Python is 3.11 or newer; Debian 13 has no package of 17 itself.
    # With its compiler, for the kernel of joins.
    if [ "$(java_release)" -lt 17 ] || ! { [ -x "${JAVA_HOME:-}/bin/javac" ] || command -v javac; } >/dev/null; then
        printf ' default-jdk-headless'
    fi
    if ! (PATH=$PATH:/usr/local/sbin:/usr/sbin command -v mariadbd && command -v mariadb-install-db) >/dev/null; then
        printf ' mariadb-server'
    fi
    # Debian keeps each version of PostgreSQL in a directory of its own.
    if ! { command -v postgres || ls /usr/lib/postgresql/*/bin/postgres; } >/dev/null 2>&1; then
        printf ' postgresql'
    fi
}

install_missing() {
    packages=$(missing_packages)
    if [ -z "$packages" ]; then return; fi
    if ! command -v apt-get >/dev/null; then
        say "needed and not found:$packages (Debian's names); install them and try again"
        exit 2
    fi
    if [ "$(id -u)" -eq 0 ]; then
        as_root=
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        as_root="sudo -n"
    else
        say "needed and not installed:$packages"
        say "type: sudo apt-get update && sudo apt-get install -y$packages"
        exit 2
    fi
    say "installing$packages"
    # Both are lists of words on purpose.
    # shellcheck disable=SC2086
    $as_root sh scripts/install_packages.sh $packages
    packages=$(missing_packages)
    if [ -n "$packages" ]; then
        say "still needed after the installation:$packages (Python must be 3.11 or newer, Java 17 or newer)"
        exit 2
    fi
}

make_environment() {
    if ! .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        say "making .venv with $(find_python)"
        "$(find_python)" -m venv --clear .venv
    fi
    say "installing the packages of requirements.lock"
    # -qq: an older pip warns that PySpark, which is only served as source, is installed the old way.
    .venv/bin/python -m pip install -qq --disable-pip-version-check --no-compile --require-hashes -r requirements.lock
    # setuptools is in the lock file: nothing but what is locked takes part in the build.
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
    # Here, and not by pip, which has one core for it, nor by Python on the way: where PYTHONDONTWRITEBYTECODE is set
    # each of a run's dozen processes would compile all that it imports. Some packages come with files of other Pythons.
    .venv/bin/python -m compileall -q -j 0 .venv/lib src >/dev/null || true
}

install_missing
make_environment
say "fetching the pinned jars of Kafka and of Spark's Kafka connector, unless they are there"
.venv/bin/python -m penstock.embedded.jars
# Joins alone need it, and say so where there is no compiler.
.venv/bin/python -m penstock.embedded.join_kernel 2>/dev/null || say "the kernel of joins is compiled when a join is run"
say "recording what Java loads at a start, unless that is done: every start is quicker for it"
# What Spark and Kafka say of themselves on the way is of no use here, and nothing depends on what they record.
timeout 300 .venv/bin/python -m penstock.embedded.record_classes 2>/dev/null || say "that failed: every start takes longer"
say "ready"
