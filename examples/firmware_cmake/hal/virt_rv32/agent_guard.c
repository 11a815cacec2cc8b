/* SPDX-License-Identifier: Apache-2.0 */
/* Guarded calls: boardprof's trap handler takes the place of the firmware's own while a call runs.
 * It needs mscratch, too. The CLINT's timer ends calls that hang. */

#include "boardprof/bp_port.h"

#if BP_CFG_GUARD

#include "bp_arch_guard.h"
#include "hal.h"

/* link.ld */
extern const char code_start[], code_end[];

/* In bp_arch_guard_enter.S; not a function to call. */
void bp_trap(void);

static uintptr_t swap_mtvec(uintptr_t handler) {
    __asm__ volatile("csrrw %0, mtvec, %0" : "+r"(handler) : : "memory");
    return handler;
}

static uintptr_t swap_mscratch(uintptr_t value) {
    __asm__ volatile("csrrw %0, mscratch, %0" : "+r"(value) : : "memory");
    return value;
}

void bp_port_guard(void (*body)(void *context), void *context, uint32_t timeout_ms,
                   bp_fault_t *fault) {
    static const bp_arch_guard_t places = {
        .text_start = code_start,
        .text_end = code_end,
        .mtime = 0x0200bff8u,
        .mtimecmp = 0x02004000u,
    };
    uintptr_t mscratch = swap_mscratch(0);
    uintptr_t mtvec = swap_mtvec((uintptr_t)bp_trap);
    bp_arch_guard(&places, body, context, (uint64_t)timeout_ms * (TIMER_HZ / 1000u), fault);
    swap_mtvec(mtvec);
    swap_mscratch(mscratch);
}

#endif
