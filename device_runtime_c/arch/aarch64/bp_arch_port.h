/* SPDX-License-Identifier: Apache-2.0 */
/* Common to the ports of boards at EL1 whose clock is the generic timer. port.c includes it once,
 * and before that defines:
 *
 *   BP_TICKS_HZ    the rate of the generic timer, as in CNTFRQ_EL0
 *   BP_SAMPLE_USUAL, BP_SAMPLE_DITHER    `usual` and `dither` of bp_port_sampling
 *
 * link.ld places .noinit where start-up code does not clear it, and defines bp_text_start,
 * bp_text_end (both at multiples of 4 KiB), bp_stack_guard_start, bp_stack_guard_end and
 * bp_stack_top. */

#ifndef BP_ARCH_PORT_H
#define BP_ARCH_PORT_H

#include <stddef.h>

#include "boardprof/bp_port.h"
#include "bp_arch.h"
#include "bp_arch_guard.h"
#include "bp_arch_mask.h"
#include "bp_arch_mmu.h"

#ifdef BP_TICKS_HZ

extern const char bp_text_start[], bp_text_end[], bp_stack_guard_start[], bp_stack_guard_end[];
extern const char bp_stack_top[];

/* Defined by the linker if the functions' code has nested functions, whose addresses are code on
 * the stack. */
extern const char bp_stack_executes[] __attribute__((weak));

static uint32_t bp_boots __attribute__((section(".noinit")));

/* Do not map the range below the stack, or NULL. The port has already mapped its devices. */
static void bp_arch_port_init(void) {
    bp_arch_mmu_map((uintptr_t)bp_text_start, (uintptr_t)bp_text_end, BP_ARCH_MMU_CODE);
    bp_arch_mmu_map((uintptr_t)bp_text_end, (uintptr_t)bp_stack_guard_start, BP_ARCH_MMU_DATA);
    bp_arch_mmu_map((uintptr_t)bp_stack_guard_end, (uintptr_t)bp_stack_top,
                    bp_stack_executes != NULL ? BP_ARCH_MMU_STACK : BP_ARCH_MMU_DATA);
#if BP_CFG_TRACE_AT
    /* Whole blocks of 2 MiB need no table of their own. */
    uintptr_t trace_end = (uintptr_t)BP_CFG_TRACE_AT + BP_CFG_TRACE;
    bp_arch_mmu_map(BP_CFG_TRACE_AT, (trace_end + 0x1fffff) & ~(uintptr_t)0x1fffff,
                    BP_ARCH_MMU_DATA);
#endif
    bp_arch_mmu_enable();
    bp_boots++;
}

#if BP_CFG_STACK

/* The stack begins above the range that is not mapped. */
uint8_t *bp_port_stack_limit(void) {
    return (uint8_t *)(uintptr_t)bp_stack_guard_end;
}

#endif

#if BP_CFG_GUARD

void bp_port_guard(void (*body)(void *context), void *context, uint32_t timeout_ms,
                   bp_fault_t *fault) {
    static const bp_arch_guard_t board = {
        .text_start = bp_text_start,
        .text_end = bp_text_end,
        .stack_guard_start = bp_stack_guard_start,
        .stack_guard_end = bp_stack_guard_end,
    };
    bp_arch_guard(&board, body, context, (uint64_t)timeout_ms * (BP_TICKS_HZ / 1000), fault);
}

#endif

#if BP_CFG_INTERRUPTS
const bp_port_interrupts_t bp_port_interrupts BP_ROM = {.masks_guard = true};
#endif

/* No wfi: while the core sleeps, an emulator advances its clock to the next timer event. Counters
 * that follow this clock would count instructions that were never executed. */
void bp_port_idle(void) {
}

static const char bp_clock_source[] BP_ROM = "CNTVCT_EL0";

#if BP_CFG_SAMPLING
const bp_port_sampling_t bp_port_sampling BP_ROM = {
    .source = bp_clock_source,
    .least = 16, /* the end of the handler, and dither */
    .most = UINT32_MAX,
    .usual = BP_SAMPLE_USUAL,
    .dither = BP_SAMPLE_DITHER,
};
#endif

const bp_port_clock_t bp_port_clock BP_ROM = {
    .source = bp_clock_source,
    .ticks_hz = BP_TICKS_HZ,
    .ticks_bits = 64,
    .ticks_in_sleep = true,
};

uint64_t bp_port_ticks(void) {
    return bp_arch_ticks();
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
    return bp_boots * 0x9e3779b1u ^ (uint32_t)bp_arch_ticks();
}

#endif

#endif
