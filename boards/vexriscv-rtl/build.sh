#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the simulator: build.sh RUNTIME VEXRISCV SCRATCH OUTPUT
#
# RUNTIME is the agent's folder, VEXRISCV that of the Python package pythondata_cpu_vexriscv, which
# has the core's source, as generated.
#
# This core's buses ignore errors, and its caches let every address through: in the source, what the
# physical memory protection of other variants answers is constant. Here rtl/core.sv answers
# instead, so that a wrong address traps. No cycle changes.
set -eu

source=$3/VexRiscv.v
sed -e 's/^module VexRiscv (/&\n  input fetch_allowed, input data_allowed, input device_allowed,/' \
    -e 's/\(IBusCachedPlugin_mmuBus_rsp_allowExecute =\) .*/\1 fetch_allowed;/' \
    -e 's/\(DBusCachedPlugin_mmuBus_rsp_allow[RW][a-z]* =\) .*/\1 data_allowed;/' \
    -e 's/\(DBusCachedPlugin_mmuBus_rsp_isIoAccess =\) .*/\1 device_allowed;/' \
    -e 's,/\* verilator public \*/,,' "$2/verilog/VexRiscv_Full.v" >"$source"
[ "$(grep -c '_allowed[,;]' "$source")" = 5 ] || {
    echo "VexRiscv_Full.v is not the one that build.sh knows" >&2
    exit 1
}

exec sh "$1/simulator/build.sh" "$PWD" "$3" "$4" "$source"
