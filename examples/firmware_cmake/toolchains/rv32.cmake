# SPDX-License-Identifier: Apache-2.0
# RISC-V rv32imac on QEMU's virt.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR riscv32)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_C_COMPILER riscv64-unknown-elf-gcc)
set(CMAKE_ASM_COMPILER riscv64-unknown-elf-gcc)
set(core "-march=rv32imac -misa-spec=2.2 -mabi=ilp32 -mcmodel=medany")
set(CMAKE_C_FLAGS_INIT "${core} -ffreestanding")
set(CMAKE_ASM_FLAGS_INIT "${core}")

set(HAL virt_rv32)
set(BOARD qemu-rv32)
set(ARCH riscv)
set(COLLECTORS cycles_instret ticks)
