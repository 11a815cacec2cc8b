/* SPDX-License-Identifier: Apache-2.0 */
/* The port of cores that are simulated from their RTL, in the system of simulator/rtl/: byte port,
 * timer, fence. simulator/rtl/soc.sv has the addresses. port.c includes this file once, and before
 * that defines:
 *
 *   BP_SAMPLE_USUAL   a third of the usual time between samples, in cycles
 *
 * A core with a table of trap vectors also defines BP_RTL_VECTORS, its symbol. */

#ifndef BP_ARCH_RTL_H
#define BP_ARCH_RTL_H

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"
#include "bp_arch.h"
#include "bp_arch_guard.h"
#include "bp_arch_mask.h"

#ifdef BP_SAMPLE_USUAL

#define BP_PORT_DATA (*(volatile uint32_t *)0x80000000u)
#define BP_PORT_STATUS (*(volatile uint32_t *)0x80000004u)
#define BP_PORT_WAIT (*(volatile uint32_t *)0x80000008u) /* answers when there is a byte */
#define BP_PORT_WAITS 1u                                 /* a byte is waiting */
#define BP_MTIME 0x80001000u
#define BP_MTIMECMP 0x80001008u
#define BP_MTIME_HZ 10000000u
#define BP_FENCE_START (*(volatile uint32_t *)0x80003000u) /* half-open, no load or store */
#define BP_FENCE_END (*(volatile uint32_t *)0x80003004u)   /* written last: this closes the fence */

static uint32_t bp_boots __attribute__((section(".noinit")));

extern const char bp_text_start[], bp_text_end[], bp_stack_guard_start[], bp_stack_guard_end[];

#if BP_CFG_STACK

/* Everything above the denied range is stack (bp_rtl.ld). */
uint8_t *bp_port_stack_limit(void) {
    return (uint8_t *)(uintptr_t)bp_stack_guard_end;
}

#endif

#if BP_CFG_GUARD

static void bp_guard_init(void) {
    BP_FENCE_START = (uint32_t)bp_stack_guard_start;
    BP_FENCE_END = (uint32_t)bp_stack_guard_end;
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
    uint64_t limit = (uint64_t)timeout_ms * (BP_MTIME_HZ / 1000);
    bp_arch_guard(&board, body, context, limit, fault);
}

#else

static void bp_guard_init(void) {
}

#endif

void bp_port_init(void) {
    bp_boots++;
    bp_guard_init();
#ifdef BP_RTL_VECTORS
    extern const char BP_RTL_VECTORS[]; /* crt0.S wrote an address without vectors */
    __asm__ volatile("csrw mtvec, %0" : : "r"(BP_RTL_VECTORS) : "memory");
#endif
}

size_t bp_port_read(uint8_t *buffer, size_t capacity) {
    size_t length = 0;
    while (length < capacity && (BP_PORT_STATUS & BP_PORT_WAITS) != 0) {
        buffer[length++] = (uint8_t)BP_PORT_DATA;
    }
    return length;
}

void bp_port_write(const uint8_t *buffer, size_t length) {
    while (length--) {
        BP_PORT_DATA = *buffer++;
    }
}

void bp_port_idle(void) {
    (void)BP_PORT_WAIT;
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

uint32_t bp_port_coarse(void) {
    return 0;
}

#if BP_CFG_SAMPLING
const bp_port_sampling_t bp_port_sampling BP_ROM = {
    .source = bp_clock_source,
    .least = 64, /* the end of the trap handler */
    .most = UINT32_MAX,
    .usual = BP_SAMPLE_USUAL,
};
#endif

#if BP_CFG_INTERRUPTS
const bp_port_interrupts_t bp_port_interrupts BP_ROM = {.masks_guard = false};
#endif

uint8_t bp_port_reset_cause(void) {
    return BP_RESET_UNKNOWN;
}

/* The factor (2^32 / golden ratio) spreads the count over all bits. */
uint32_t bp_port_boot_id(void) {
    return bp_boots * 0x9e3779b1u ^ bp_arch_cycles32();
}

#endif

#endif
