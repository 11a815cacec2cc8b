#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes .venv: the locked Python packages, checked by their hashes, and this checkout, editable. For
# `make test` also the locked Node.js package of rpi-pico's emulator, in .venv/lib/node_modules.
# usage: PYTHON=... scripts/venv.sh demo|check|test, in the checkout's folder
#
# .venv/setup-demo and .venv/setup-test hold the key of what was installed. With another key, such
# as that of another checkout, or without any, .venv is made again.
set -eu

case $1 in
demo) part=demo lock=requirements.lock ;;
*) part=test lock=requirements-dev.lock ;;
esac

key=$({
    "$PYTHON" -c 'import platform, sys; print(sys.base_prefix, platform.machine(), sys.version_info[:2])'
    pwd -P
    cat requirements.lock requirements-dev.lock pyproject.toml scripts/venv.sh
} | sha256sum)

# The file is written last: an installation that was interrupted has none.
has() {
    [ "$(cat ".venv/setup-$1" 2>/dev/null)" = "$key" ] && .venv/bin/python -c 'import boardprof' 2>/dev/null
}

pip() {
    .venv/bin/python -m pip --quiet --disable-pip-version-check "$@" && return
    echo "Setting up .venv failed: see above. It takes the packages from where pip is set up to" \
        "look for them, so it needs the network or pip's own configuration." >&2
    exit 1
}

# npm writes the hidden lock file last.
node() {
    lib=.venv/lib lock=boards/rpi-pico/package-lock.json
    cmp -s $lock $lib/package-lock.json &&
        [ $lib/node_modules/.package-lock.json -nt $lib/package-lock.json ] && return
    echo "Installing Node.js packages into $lib ..."
    cp boards/rpi-pico/package.json $lock $lib/
    npm ci --prefix $lib --loglevel=error --no-audit --no-fund >/dev/null && return
    echo "Installing Node.js packages failed: see above. npm takes them from where it is set up to" \
        "look for them, so it needs the network or npm's own configuration." >&2
    exit 1
}

if has $part; then
    [ "$1" != test ] || node
    exit 0
fi
if ! has demo; then
    [ ! -d .venv ] || echo "Removing .venv: it is of another Python, another folder or other locked packages."
    rm -rf .venv
    "$PYTHON" -m venv .venv
fi
echo "Installing Python packages into .venv ($("$PYTHON" --version)) ..."
# Python compiles what is imported; compiling everything takes 160 MB and half of the time.
pip install --no-compile --require-hashes -r "$lock"
# The build backend is in the lock, too.
pip install --no-compile --no-deps --no-build-isolation -e .
pip check
for each in demo $part; do
    echo "$key" >".venv/setup-$each"
done
[ "$1" != test ] || node
