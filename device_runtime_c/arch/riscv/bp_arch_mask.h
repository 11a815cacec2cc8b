/* SPDX-License-Identifier: Apache-2.0 */
/* Mask interrupts of machine mode (RISC-V privileged manual, version 20211203, 3.1.6, 3.1.9). One
 * file of a program includes this header, usually port.c. */

#ifndef BP_ARCH_MASK_H
#define BP_ARCH_MASK_H

#include "boardprof/bp_port.h"

#if BP_CFG_INTERRUPTS

/* The bits of mie, if mstatus.MIE is set. A guarded call enables its timer alone. */
uint32_t bp_port_enabled_interrupts(void) {
    uint32_t enabled = 0;
#if !BP_CFG_GUARD
    uintptr_t bits, mstatus;
    __asm__ volatile("csrr %0, mie\n\tcsrr %1, mstatus" : "=r"(bits), "=r"(mstatus));
    for (bits &= (mstatus & 8u) != 0 ? UINTPTR_MAX : 0; bits != 0; bits &= bits - 1) {
        enabled++;
    }
#endif
    return enabled;
}

#if BP_CFG_GUARD

/* Clear all bits of mie except that of the timer, whose interrupt only ends guarded calls. */
#define BP_ARCH_MASKED ((uintptr_t)~0x80u)

uintptr_t bp_port_mask(void) {
    uintptr_t before;
    __asm__ volatile("csrrc %0, mie, %1" : "=r"(before) : "r"(BP_ARCH_MASKED) : "memory");
    return before;
}

void bp_port_unmask(uintptr_t before) {
    __asm__ volatile("csrs mie, %0" ::"r"(before & BP_ARCH_MASKED) : "memory");
}

#else

/* Mask all interrupts: mstatus.MIE. */
uintptr_t bp_port_mask(void) {
    uintptr_t before;
    __asm__ volatile("csrrci %0, mstatus, 8" : "=r"(before)::"memory");
    return before;
}

void bp_port_unmask(uintptr_t before) {
    __asm__ volatile("csrs mstatus, %0" ::"r"(before & 8u) : "memory");
}

#endif

#endif

#endif
