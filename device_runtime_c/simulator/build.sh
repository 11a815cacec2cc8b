#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the simulator of a board: build.sh BOARD SCRATCH OUTPUT [ARGUMENT]...
#
# BOARD is the board's folder. Its rtl/core.sv is the wrapper around its core; rtl/accelerator.sv and
# sim/*.cpp are optional. SCRATCH is an empty folder, OUTPUT the program. The other arguments are
# Verilator's, such as the core's sources and -I folders with them.
set -eu

board=$1 scratch=$2 output=$3
shift 3
here=$(cd "$(dirname "$0")" && pwd)
recorder=$here/../recorder

gcc -std=c11 -O2 -c -o "$scratch/bp_recorder.o" "$recorder/bp_recorder.c"

for file in "$here"/*.cpp "$board"/sim/*.cpp; do
    [ ! -e "$file" ] || set -- "$@" "$file"
done

exec verilator --cc --exe --build -j 2 --top-module soc --Mdir "$scratch" -o "$output" \
    -O3 -DSYNTHESIS --x-assign fast --x-initial fast --noassert -Wno-fatal -Wno-lint -Wno-style \
    -CFLAGS "-std=c++17 -I$here -I$board/sim -I$recorder" -MAKEFLAGS "VM_PARALLEL_BUILDS=1" \
    -MAKEFLAGS "OPT_FAST=-O2 OPT_SLOW=-O0 OPT_GLOBAL=-O0" \
    -I"$board/rtl" -I"$here/rtl" "$@" "$here/rtl/soc.sv" \
    "$scratch/bp_recorder.o"
