/* SPDX-License-Identifier: Apache-2.0 */
/* Mask interrupts with DAIF.I (Arm ARM, DDI 0487, C5.2.3). One file of a program includes this
 * header, usually port.c. */

#ifndef BP_ARCH_MASK_H
#define BP_ARCH_MASK_H

#include "boardprof/bp_port.h"

#if BP_CFG_INTERRUPTS

uintptr_t bp_port_mask(void) {
    uintptr_t before;
    __asm__ volatile("mrs %0, daif\n msr daifset, #2" : "=r"(before)::"memory");
    return before;
}

void bp_port_unmask(uintptr_t before) {
    __asm__ volatile("msr daif, %0" ::"r"(before) : "memory");
}

#endif

#endif
