/* SPDX-License-Identifier: Apache-2.0 */
/* Ticks and timeouts from SysTick at the core's clock, for boards that have no other timer that
 * counts the same on hardware and in the emulator. port.c includes it once, and before that defines
 * BP_SYSTICK_HZ.
 *
 * The counter has 24 bits. Its exception counts the wraps, also within measured windows. The
 * exception's own time is left out of the ticks: bp_systick_init measures it, and each wrap is
 * counted as that much less. A function that hangs is stopped by the first wrap after its limit; if
 * it masks interrupts, it is never stopped.
 *
 * ARMv7-M ARM (DDI 0403) and ARMv6-M ARM (DDI 0419), both B3.3; ICSR: B3.2.4. */

#ifndef BP_ARCH_SYSTICK_H
#define BP_ARCH_SYSTICK_H

#ifndef BP_SYSTICK_HZ
#define BP_SYSTICK_HZ 16000000u
#endif

#include "bp_arch_port.h"

#define BP_SYST_CSR (*(volatile uint32_t *)0xe000e010u)
#define BP_SYST_RVR (*(volatile uint32_t *)0xe000e014u)
#define BP_SYST_CVR (*(volatile uint32_t *)0xe000e018u)
#define BP_SYST_ENABLE 1u
#define BP_SYST_TICKINT 2u
#define BP_SYST_CLKSOURCE 4u /* the core's clock */
#define BP_SYST_COUNTFLAG (1u << 16)
#define BP_SYST_ON (BP_SYST_CLKSOURCE | (BP_CFG_GUARD ? BP_SYST_TICKINT : 0u) | BP_SYST_ENABLE)
#define BP_ICSR (*(volatile uint32_t *)0xe000ed04u)
#define BP_ICSR_PENDSTSET (1u << 26)
#define BP_ICSR_PENDSTCLR (1u << 25)

/* QEMU rounds a period down to whole nanoseconds. At 24, 72, 84 and 168 MHz this one loses at most
 * 0.1 ns by that: it is a multiple of 63 ticks, less one. Then ticks stay exact over many wraps. */
#define BP_SYSTICK_PERIOD (BP_CFG_GUARD ? 0xfbffffu : 1u << 24)

const bool bp_arch_owns_systick = true;

static const char bp_clock_source[] BP_ROM = "SysTick";

const bp_port_clock_t bp_port_clock BP_ROM = {
    .source = bp_clock_source,
    .ticks_hz = BP_SYSTICK_HZ,
    .ticks_bits = BP_CFG_GUARD ? 64 : 24,
    .ticks_in_sleep = true,
};

/* SysTick counts down. */
static inline uint32_t bp_systick(void) {
    return BP_SYSTICK_PERIOD - 1u - BP_SYST_CVR;
}

uint32_t bp_port_coarse(void) {
    return 0;
}

bool bp_port_clock_intact(void) {
    bool intact =
        (BP_SYST_CSR & ~BP_SYST_COUNTFLAG) == BP_SYST_ON && BP_SYST_RVR == BP_SYSTICK_PERIOD - 1u;
    BP_SYST_RVR = BP_SYSTICK_PERIOD - 1u;
    BP_SYST_CSR = BP_SYST_ON;
    return intact;
}

#if BP_CFG_INTERRUPTS
/* In a masked window one exception stays pending, and bp_port_ticks accounts for it for half a
 * wrap. The time of the exception is not in the ticks. */
const bp_port_interrupts_t bp_port_interrupts BP_ROM = {
    .longest_us = BP_CFG_GUARD ? BP_SYSTICK_PERIOD / 2 / (BP_SYSTICK_HZ / 1000000u) : 0,
    .masks_guard = true,
};
#endif

#if BP_CFG_GUARD

/* The time of many wraps adds up, so it is known to a fraction of a tick. */
#define BP_TRIES 128u
#define BP_WRAP (BP_TRIES * BP_SYSTICK_PERIOD)

static bool bp_is_quiet; /* the exception is off until the guarded call ends */
/* Of all wraps, minus the time of counting them; in ticks / BP_TRIES. */
static volatile uint64_t bp_wrapped;
static uint32_t bp_wrap_cost;           /* of counting one, in the same unit */
static volatile uint32_t bp_wraps_left; /* until the limit is over; 2^32 without a limit */

static bool bp_is_over(void) {
    bp_wrapped += BP_WRAP - bp_wrap_cost;
    return --bp_wraps_left == 0; /* the same instructions every time */
}

static const bp_arch_guard_t bp_guarded_board = {BP_ARCH_PLACES, .is_over = bp_is_over,
                                                 .is_systick = true};

uint64_t bp_port_ticks(void) {
    uint64_t before = bp_wrapped;
    uint32_t now = bp_systick();
    uint32_t icsr = BP_ICSR;
    uint64_t after = bp_wrapped;
    /* A wrap that came meanwhile came before the counter was read if the counter is low. With
     * interrupts masked it is pending. There is no branch, so that all readings, which windows
     * include, take the same instructions. */
    uint32_t is_low = now < BP_SYSTICK_PERIOD / 2;
    uint32_t pending = icsr / BP_ICSR_PENDSTSET & is_low;
    uint64_t wrapped = before ^ ((before ^ after) & (0 - (uint64_t)is_low));
    return wrapped / BP_TRIES + now + pending * BP_SYSTICK_PERIOD;
}

void bp_port_guard(void (*body)(void *context), void *context, uint32_t timeout_ms,
                   bp_fault_t *fault) {
    uint64_t limit = (uint64_t)timeout_ms * (BP_SYSTICK_HZ / 1000u) + bp_systick();
    bp_wraps_left = timeout_ms != 0 ? (uint32_t)(limit / BP_SYSTICK_PERIOD) + 1u : 0;
    bp_arch_guard(&bp_guarded_board, body, context, fault);
    bp_wraps_left = 0;
    if (bp_is_quiet) {
        bp_is_quiet = false;
        BP_SYST_CSR = BP_SYST_ON;
    }
}

#if BP_CFG_STACK
static uint64_t bp_quiet_since; /* bp_wrapped */

/* Restart the counter without an exception: the next wrap is a period away. What it has counted
 * is added to the wraps, so that ticks continue. The limit ends at most one wrap later. */
void bp_port_stack_quiet(void) {
    uintptr_t before = bp_arch_lock();
    uint64_t now = bp_port_ticks();
    BP_SYST_CVR = 0;
    BP_ICSR = BP_ICSR_PENDSTCLR; /* `now` includes it */
    bp_wrapped = bp_quiet_since = now * BP_TRIES;
    bp_arch_unlock(before); /* as the function's set-up left it */
}

/* Ticks lose the wraps until the call ends. */
void bp_port_stack_off(void) {
    bp_is_quiet = true;
    BP_SYST_CSR = BP_SYST_ON & ~BP_SYST_TICKINT;
}

bool bp_port_stack_hit(void) {
    return bp_wrapped != bp_quiet_since;
}
#endif

/* Ticks of writes to ICSR that make an exception pending, or not. A separate function, so that both
 * cases run the same instructions. */
static __attribute__((noinline)) uint32_t bp_systick_around(uint32_t icsr) {
    uint32_t before = bp_systick();
    for (uint32_t i = 0; i < BP_TRIES; i++) {
        BP_ICSR = icsr;
        __asm__ volatile("dsb\n isb" ::: "memory");
    }
    return (bp_systick() - before) % BP_SYSTICK_PERIOD;
}

/* In measured windows the exception comes within a guarded call, so it is measured in one. Setting
 * it pending runs the same code as a wrap. It also counts wraps that did not happen. */
static void bp_systick_try(void *context) {
    uint32_t without = bp_systick_around(0);
    *(uint32_t *)context = bp_systick_around(BP_ICSR_PENDSTSET) - without;
}

static inline void bp_systick_init(void) {
    bp_fault_t fault;
    uint32_t cost = 0;
#if BP_CFG_BASEPRI
    *(volatile uint8_t *)0xe000ed23u = BP_CFG_BASEPRI; /* SHPR3, PRI_15: a lock masks it */
#endif
    BP_SYST_RVR = BP_SYSTICK_PERIOD - 1u;
    BP_SYST_CVR = 0;
    BP_SYST_CSR = BP_SYST_ON;
    bp_arch_guard(&bp_guarded_board, bp_systick_try, &cost, &fault);
    bp_wrapped = 0;
    bp_wrap_cost = cost;
}

#else

uint64_t bp_port_ticks(void) {
    return bp_systick();
}

static inline void bp_systick_init(void) {
    BP_SYST_RVR = BP_SYSTICK_PERIOD - 1u;
    BP_SYST_CVR = 0;
    BP_SYST_CSR = BP_SYST_ON;
}

#endif

#endif
