/* SPDX-License-Identifier: Apache-2.0 */
/* Mask interrupts as bp_arch_lock does. One file of a program includes this header, usually port.c.
 */

#ifndef BP_ARCH_MASK_H
#define BP_ARCH_MASK_H

#include <stddef.h>

#include "boardprof/bp_port.h"
#include "bp_arch.h"
#include "bp_arch_reg.h"

#if BP_CFG_INTERRUPTS

/* Defined by ports whose own interrupt is SysTick's. */
extern const bool bp_arch_owns_systick __attribute__((weak));

/* Interrupt Set-Enable Registers and SysTick (DDI 0403, B3.4.4 and B3.3.3). ARMv6-M has only the
 * first register. BP_TIMER_IRQ is the port's own. */
uint32_t bp_port_enabled_interrupts(void) {
#if defined(__ARM_ARCH_6M__)
    const uint32_t registers = 1;
#else
    const uint32_t registers = 8;
#endif
    uint32_t enabled = 0;
    for (uint32_t i = 0; i < registers; i++) {
        uint32_t bits = bp_arch_reg(0xe000e100u + 4 * i);
#if BP_CFG_GUARD && defined(BP_TIMER_IRQ)
        bits &= i == BP_TIMER_IRQ / 32 ? ~(1u << BP_TIMER_IRQ % 32) : UINT32_MAX;
#endif
        for (; bits != 0; bits &= bits - 1) {
            enabled++;
        }
    }
    if (&bp_arch_owns_systick == NULL && (bp_arch_reg(0xe000e010u) & 3u) == 3u) {
        enabled++; /* TICKINT, ENABLE */
    }
    return enabled;
}

uintptr_t bp_port_mask(void) {
    return bp_arch_lock();
}

void bp_port_unmask(uintptr_t before) {
    bp_arch_unlock(before);
}

#endif

#endif
