#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints how long something took and compares it with its budget. Being over it is not a failure: the
# machine may be busy.
# usage: scripts/took.sh BEGAN BUDGET, both in seconds, BEGAN since 1970
set -eu

took=$(($(date +%s) - $1))

shown() {
    if [ "$1" -lt 60 ]; then echo "$1 s"; else echo "$(($1 / 60)) min $(($1 % 60)) s"; fi
}

if [ "$took" -gt "$2" ]; then verdict="over"; else verdict="within"; fi
echo "$(shown "$took"): $verdict the budget of $(shown "$2")"
