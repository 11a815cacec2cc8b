/* SPDX-License-Identifier: Apache-2.0 */
/* Mask interrupts with PRIMASK (ARMv7-M ARM, DDI 0403, B1.4.3): all but NMI and faults. One file of
 * a program includes this header, usually port.c. */

#ifndef BP_ARCH_MASK_H
#define BP_ARCH_MASK_H

#include "boardprof/bp_port.h"

#if BP_CFG_INTERRUPTS

uintptr_t bp_port_mask(void) {
    uintptr_t before;
    __asm__ volatile("mrs %0, primask\n cpsid i" : "=r"(before)::"memory");
    return before;
}

void bp_port_unmask(uintptr_t before) {
    __asm__ volatile("msr primask, %0" ::"r"(before) : "memory");
}

#endif

#endif
