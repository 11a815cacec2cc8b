#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs what `make demo`, `make check` or `make test` needs, as far as it is missing.
# usage: scripts/setup.sh demo|check|test
# PYTHON in the environment names the interpreter; else it is that of .venv, or the first one that is
# new enough.
set -eu
cd "$(dirname "$0")/.."

MISSING=7 # exit code: something must be installed first

case ${1:-} in
demo | check | test) part=$1 ;;
*)
    echo "usage: scripts/setup.sh demo|check|test" >&2
    exit 2
    ;;
esac

# Prints the interpreter itself, not a virtual environment's link to it: .venv may be removed.
base_python() {
    "$1" -c '
import sys
if sys.version_info < (3, 11):
    sys.exit(1)
print(getattr(sys, "_base_executable", None) or sys.executable)' 2>/dev/null
}

python=
for candidate in ${PYTHON:-.venv/bin/python python3 python3.11 python3.12 python3.13 python3.14}; do
    python=$(base_python "$candidate") && break
    python=
done
if [ -z "$python" ]; then
    {
        echo "boardprof needs Python 3.11 or newer; ${PYTHON:-python3} is" \
            "$("${PYTHON:-python3}" --version 2>/dev/null || echo "not a Python that runs")."
        echo "Debian 12 and later have it: apt-get install python3 python3-venv"
        echo "If it is not on PATH, name it: make $part PYTHON=/path/to/python3.11"
    } >&2
    exit $MISSING
fi

PYTHON=$python sh scripts/packages.sh "$part"
PYTHON=$python sh scripts/venv.sh "$part"
