/* SPDX-License-Identifier: Apache-2.0 */
/* Common to the ports of machine-mode boards with a CLINT (mtime, mtimecmp). port.c includes it
 * once, after bp_arch_guard.h, and before that defines:
 *
 *   BP_MTIME, BP_MTIMECMP   their addresses; mtimecmp is that of the hart that runs this
 *   BP_MTIME_OF(ms)         `ms` milliseconds in ticks of mtime, a uint64_t
 *   BP_STACK_GUARD_BYTES    denied below the stack; a power of 2, as in link.ld
 *   BP_NULL_BYTES           denied from address 0, where nothing is; a power of 2
 *   BP_SAMPLE_USUAL         a third of the usual time between samples, in ticks of mtime
 *   BP_SAMPLE_DITHER        instructions in a tick of mtime
 *
 * link.ld places .noinit where start-up code does not clear it, and defines bp_text_start,
 * bp_text_end, bp_stack_guard_start and bp_stack_guard_end. */

#ifndef BP_ARCH_PORT_H
#define BP_ARCH_PORT_H

#include "boardprof/bp_port.h"
#include "bp_arch.h"
#include "bp_arch_guard.h"
#include "bp_arch_mask.h"

#ifdef BP_MTIME

extern const char bp_text_start[], bp_text_end[], bp_stack_guard_start[], bp_stack_guard_end[];

static uint32_t bp_boots __attribute__((section(".noinit")));

#if BP_CFG_STACK

/* The stack begins above the denied range. */
uint8_t *bp_port_stack_limit(void) {
    return (uint8_t *)(uintptr_t)bp_stack_guard_end;
}

#endif

#if BP_CFG_GUARD

/* Deny the range below the stack, and the addresses around NULL. */
static void bp_arch_port_init(void) {
    bp_boots++;
    bp_arch_deny(bp_arch_region((uintptr_t)bp_stack_guard_start, BP_STACK_GUARD_BYTES),
                 bp_arch_region(0, BP_NULL_BYTES));
}

void bp_port_guard(void (*body)(void *context), void *context, uint32_t timeout_ms,
                   bp_fault_t *fault) {
    static const bp_arch_guard_t board = {
        .text_start = bp_text_start,
        .text_end = bp_text_end,
        .stack_guard_start = bp_stack_guard_start,
        .stack_guard_end = bp_stack_guard_end,
        .mtime = BP_MTIME,
        .mtimecmp = BP_MTIMECMP,
    };
    bp_arch_guard(&board, body, context, BP_MTIME_OF(timeout_ms), fault);
}

#else

static void bp_arch_port_init(void) {
    bp_boots++;
}

#endif

#if BP_CFG_SAMPLING
static const char bp_sampling_source[] BP_ROM = "mtime";

const bp_port_sampling_t bp_port_sampling BP_ROM = {
    .source = bp_sampling_source,
    .least = 4, /* the end of the handler, and dither */
    .most = UINT32_MAX,
    .usual = BP_SAMPLE_USUAL,
    .dither = BP_SAMPLE_DITHER,
};
#endif

#if BP_CFG_INTERRUPTS
const bp_port_interrupts_t bp_port_interrupts BP_ROM = {.masks_guard = false};
#endif

/* No wfi: while the core sleeps, an emulator advances its clock to the next timer event. Counters
 * that follow this clock would count instructions that were never executed. */
void bp_port_idle(void) {
}

/* The tick counter has 64 bits and never wraps: no second clock is needed. */
uint32_t bp_port_coarse(void) {
    return 0;
}

uint8_t bp_port_reset_cause(void) {
    return BP_RESET_UNKNOWN;
}

/* The factor, 2^32 / golden ratio, spreads the count over all bits. */
uint32_t bp_port_boot_id(void) {
    return bp_boots * 0x9e3779b1u ^ (uint32_t)bp_arch_counter_at(BP_MTIME);
}

#endif

#endif
