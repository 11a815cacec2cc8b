# SPDX-License-Identifier: Apache-2.0
# Cortex-M3 on QEMU's mps2-an385.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR arm)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_C_COMPILER arm-none-eabi-gcc)
set(CMAKE_ASM_COMPILER arm-none-eabi-gcc)
set(CMAKE_C_FLAGS_INIT "-mcpu=cortex-m3 -mthumb -ffreestanding")
set(CMAKE_ASM_FLAGS_INIT "-mcpu=cortex-m3 -mthumb")

set(HAL mps2_an385)
set(BOARD qemu-cortex-m3)
set(ARCH cortex_m)
set(COLLECTORS cycles32 ticks)
