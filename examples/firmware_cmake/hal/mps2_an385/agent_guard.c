/* SPDX-License-Identifier: Apache-2.0 */
/* Guarded calls: boardprof's handlers do the work, and startup.S has them in its vectors. A unit of
 * the chip that the firmware does not use ends calls that hang: the watchdog, whose interrupt is
 * NMI (CMSDK, DDI 0479). */

#include "boardprof/bp_port.h"

#if BP_CFG_GUARD

#include "bp_arch_guard.h"
#include "hal.h"

#define WATCHDOG_LOAD (*(volatile uint32_t *)0x40008000u)
#define WATCHDOG_CONTROL (*(volatile uint32_t *)0x40008008u)
#define WATCHDOG_INTCLR (*(volatile uint32_t *)0x4000800cu)

/* link.ld */
extern const char code_start[], code_end[], stack_limit[];

static uint32_t rounds; /* of 2^32 counts each, left until the limit */

static bool is_over(void) {
    WATCHDOG_INTCLR = 1;
    if (rounds != 0) {
        WATCHDOG_LOAD = UINT32_MAX;
    }
    return rounds-- == 0;
}

void bp_port_guard(void (*body)(void *context), void *context, uint32_t timeout_ms,
                   bp_fault_t *fault) {
    /* Nothing below the stack is denied, so that range is empty: an overflow is not recognised. */
    static const bp_arch_guard_t places = {
        .text_start = code_start,
        .text_end = code_end,
        .stack_guard_start = stack_limit,
        .stack_guard_end = stack_limit,
        .is_over = is_over,
    };
    uint64_t limit = (uint64_t)timeout_ms * (TIMER_HZ / 1000u);
    if (timeout_ms != 0) {
        rounds = (uint32_t)(limit >> 32);
        WATCHDOG_INTCLR = 1;
        WATCHDOG_LOAD = (uint32_t)limit | 1u;
        WATCHDOG_CONTROL = 1;
    }
    bp_arch_guard(&places, body, context, fault);
    WATCHDOG_CONTROL = 0;
    WATCHDOG_INTCLR = 1;
}

#endif
