/* SPDX-License-Identifier: Apache-2.0 */
/* QEMU's RISC-V "virt" machine: NS16550A and CLINT, at the addresses of virt_memmap in QEMU's
 * hw/riscv/virt.c. Within the CLINT, mtime is at 0xbff8 and hart 0's mtimecmp at 0x4000 (SiFive
 * FU540-C000 manual, chapter 9; RISC-V ACLINT specification). */

#ifndef BP_ARCH_VIRT_H
#define BP_ARCH_VIRT_H

#define BP_UART 0x10000000u
#define BP_MTIME 0x0200bff8u
#define BP_MTIMECMP 0x02004000u
#define BP_MTIME_HZ 10000000u
#define BP_MTIME_OF(ms) ((uint64_t)(ms) * (BP_MTIME_HZ / 1000u))
#define BP_STACK_GUARD_BYTES 65536u
#define BP_NULL_BYTES 4096u
#define BP_SAMPLE_USUAL 18u
#define BP_SAMPLE_DITHER 100u /* with -icount shift=0 */

#include "bp_arch_16550.h"
#include "bp_arch_port.h"

void bp_port_init(void) {
    bp_arch_port_init();
    bp_uart_init();
}

static const char bp_clock_source[] BP_ROM = "mtime";

const bp_port_clock_t bp_port_clock BP_ROM = {
    .source = bp_clock_source,
    .ticks_hz = BP_MTIME_HZ,
    .ticks_bits = 64,
    .ticks_in_sleep = true,
};

uint64_t bp_port_ticks(void) {
    return bp_arch_counter_at(BP_MTIME);
}

#endif
