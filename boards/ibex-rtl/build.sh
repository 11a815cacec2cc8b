#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the simulator: build.sh RUNTIME IBEX SCRATCH OUTPUT
#
# RUNTIME is the agent's folder, IBEX that of the Python package pythondata_cpu_ibex, which has the
# core's sources.
set -eu

ibex=$2/system_verilog
prim=$ibex/vendor/lowrisc_ip/ip/prim/rtl
generic=$ibex/vendor/lowrisc_ip/ip/prim_generic/rtl
technology=$ibex/dv/uvm/core_ibex/common/prim

# Packages first, in the order of their dependencies; modules are then found by name.
exec sh "$1/simulator/build.sh" "$PWD" "$3" "$4" \
    -I"$prim" -I"$generic" -I"$technology" -I"$ibex/rtl" \
    -I"$ibex/vendor/lowrisc_ip/dv/sv/dv_utils" \
    "$prim/prim_util_pkg.sv" "$prim/prim_mubi_pkg.sv" "$prim/prim_cipher_pkg.sv" \
    "$prim/prim_count_pkg.sv" "$prim/prim_secded_pkg.sv" "$prim/prim_ram_1p_pkg.sv" \
    "$technology/prim_pkg.sv" "$ibex/rtl/ibex_pkg.sv"
