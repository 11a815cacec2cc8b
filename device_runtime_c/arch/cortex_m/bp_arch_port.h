/* SPDX-License-Identifier: Apache-2.0 */
/* Common to the ports of bare Cortex-M boards. port.c includes it once, usually through the header
 * of its family.
 *
 * link.ld places .noinit where start-up code does not clear it, and defines bp_text_start,
 * bp_text_end, bp_stack_guard_start, bp_stack_guard_end and bp_stack_top. */

#ifndef BP_ARCH_PORT_H
#define BP_ARCH_PORT_H

#include <stddef.h>
#include <stdint.h>

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"
#include "bp_arch_guard.h"
#include "bp_arch_mask.h"

extern const char bp_text_start[], bp_text_end[], bp_stack_guard_start[], bp_stack_guard_end[];

static uint32_t bp_boots __attribute__((section(".noinit")));

#if BP_CFG_STACK

/* The stack begins above the denied range. */
uint8_t *bp_port_stack_limit(void) {
    return (uint8_t *)(uintptr_t)bp_stack_guard_end;
}

#endif

/* The addresses in a bp_arch_guard_t. */
#define BP_ARCH_PLACES                                    \
    .text_start = bp_text_start, .text_end = bp_text_end, \
    .stack_guard_start = bp_stack_guard_start, .stack_guard_end = bp_stack_guard_end

/* No wfi: while the core sleeps, an emulator advances its clock to the next timer event. Ticks
 * would then count time in which nothing ran. On hardware the cycle counter stops. */
void bp_port_idle(void) {
}

/* The factor, 2^32 / golden ratio, spreads the count over all bits. */
uint32_t bp_port_boot_id(void) {
    return ++bp_boots * 0x9e3779b1u ^ (uint32_t)bp_port_ticks();
}

#endif
