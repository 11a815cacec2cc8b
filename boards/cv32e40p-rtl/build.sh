#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the simulator: build.sh RUNTIME CV32E40P SCRATCH OUTPUT
#
# RUNTIME is the agent's folder, CV32E40P that of the Python package pythondata_cpu_cv32e40p, which
# has the sources of the core and of its FPU.
set -eu

rtl=$2/system_verilog/rtl
cells=$rtl/vendor/pulp_platform_common_cells
fpu=$rtl/vendor/pulp_platform_fpnew
divider=$fpu/vendor/opene906/E906_RTL_FACTORY/gen_rtl

# Packages first, in the order of their dependencies; modules are then found by name, but for the
# registers, whose file is one of two. They are assigned in two ways, element by element.
exec sh "$1/simulator/build.sh" "$PWD" "$3" "$4" -Wno-BLKANDNBLK \
    -I"$rtl" -I"$rtl/include" -I"$cells/include" -I"$cells/src" -I"$fpu/src" \
    -I"$divider/clk/rtl" -I"$divider/fdsu/rtl" -I"$divider/fpu/rtl" \
    "$rtl/include/cv32e40p_apu_core_pkg.sv" "$rtl/include/cv32e40p_fpu_pkg.sv" \
    "$rtl/include/cv32e40p_pkg.sv" "$cells/src/cf_math_pkg.sv" "$fpu/src/fpnew_pkg.sv" \
    "$rtl/cv32e40p_register_file_ff.sv"
