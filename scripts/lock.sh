#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Resolves requirements.lock and requirements-dev.lock from pyproject.toml, for every system.
# usage: PYTHON=... scripts/lock.sh [OPTION OF uv pip compile]..., such as --upgrade
set -eu
cd "$(dirname "$0")/.."

if ! command -v uv >/dev/null; then
    echo "The lock files are resolved by uv, which is not on PATH: pip install uv" >&2
    exit 7
fi

# The backend is locked as well, because the package is installed without build isolation.
backend() {
    "$PYTHON" -c '
import tomllib
with open("pyproject.toml", "rb") as file:
    print(*tomllib.load(file)["build-system"]["requires"], sep="\n")'
}

# usage: resolve FILE [OPTION]...; what is in FILE stays as it is where it still fits
resolve() {
    file=$1
    shift
    backend | uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-header --no-emit-index-url --no-annotate --output-file "$file" "$@" pyproject.toml -
    { echo "# Made by make lock from pyproject.toml. Do not edit."; cat "$file"; } >"$file.new"
    mv "$file.new" "$file"
}

resolve requirements.lock "$@"
resolve requirements-dev.lock --group dev --constraint requirements.lock "$@"
