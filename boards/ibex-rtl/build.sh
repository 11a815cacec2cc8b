#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the simulator: build.sh RUNTIME IBEX SCRATCH OUTPUT
#
# RUNTIME is the agent's folder, whose recorder/ is in the simulator, too.
# IBEX is the folder of the Python package pythondata_cpu_ibex, which has the core's sources.
# SCRATCH is an empty folder, OUTPUT the program.
set -eu

recorder=$1/recorder ibex=$2/system_verilog scratch=$3 output=$4
here=$(cd "$(dirname "$0")" && pwd)
prim=$ibex/vendor/lowrisc_ip/ip/prim/rtl
generic=$ibex/vendor/lowrisc_ip/ip/prim_generic/rtl
technology=$ibex/dv/uvm/core_ibex/common/prim

gcc -std=c11 -O2 -c -o "$scratch/bp_recorder.o" "$recorder/bp_recorder.c"

# Packages first, in the order of their dependencies; modules are then found by name.
verilator --cc --exe --build -j 2 --top-module soc --Mdir "$scratch" -o "$output" \
    -O3 -DSYNTHESIS --x-assign fast --x-initial fast --noassert -Wno-fatal -Wno-lint -Wno-style \
    -CFLAGS "-std=c++17 -I$here/sim -I$recorder" -MAKEFLAGS "VM_PARALLEL_BUILDS=1" \
    -MAKEFLAGS "OPT_FAST=-O2 OPT_SLOW=-O0 OPT_GLOBAL=-O0" \
    -I"$here/rtl" -I"$prim" -I"$generic" -I"$technology" -I"$ibex/rtl" \
    -I"$ibex/vendor/lowrisc_ip/dv/sv/dv_utils" \
    "$prim/prim_util_pkg.sv" "$prim/prim_mubi_pkg.sv" "$prim/prim_cipher_pkg.sv" \
    "$prim/prim_count_pkg.sv" "$prim/prim_secded_pkg.sv" "$prim/prim_ram_1p_pkg.sv" \
    "$technology/prim_pkg.sv" "$ibex/rtl/ibex_pkg.sv" \
    "$here/rtl/soc.sv" \
    "$here/sim/main.cpp" "$here/sim/program.cpp" "$here/sim/line.cpp" "$here/sim/counts.cpp" \
    "$here/sim/waits.cpp" "$here/sim/recording.cpp" "$scratch/bp_recorder.o"
