/* SPDX-License-Identifier: Apache-2.0 */
/* What the ports of bare Cortex-M boards have alike; the port.c of a board includes it once, most
 * often through the header of its family.
 *
 * link.ld keeps .noinit where nothing clears it, and defines bp_text_start, bp_text_end,
 * bp_stack_guard_start, bp_stack_guard_end and bp_stack_top. */

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

/* All above what is denied is stack. */
uint8_t *bp_port_stack_limit(void) {
    return (uint8_t *)(uintptr_t)bp_stack_guard_end;
}

#endif

/* The places of a bp_arch_guard_t. */
#define BP_ARCH_PLACES                                    \
    .text_start = bp_text_start, .text_end = bp_text_end, \
    .stack_guard_start = bp_stack_guard_start, .stack_guard_end = bp_stack_guard_end

/* No wfi: while the core sleeps, an emulator moves its clock on to the next timer, and ticks would
 * count time in which nothing ran; and the cycle counter of a real core stops. */
void bp_port_idle(void) {
}

/* The factor (2^32 / golden ratio) spreads the count over the word. */
uint32_t bp_port_boot_id(void) {
    return ++bp_boots * 0x9e3779b1u ^ (uint32_t)bp_port_ticks();
}

#endif
