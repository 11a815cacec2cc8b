/* SPDX-License-Identifier: Apache-2.0 */
/* Enable the virtual timer's interrupt, and no other, in a GICv2 (Arm Generic Interrupt Controller
 * Architecture Specification, IHI 0048, 4.3 and 4.4). */

#ifndef BP_ARCH_GIC_H
#define BP_ARCH_GIC_H

#include <stdint.h>

/* It is a private interrupt of the core, by convention number 27 (Server Base System Architecture,
 * DEN 0029). The timer drives it by level, so it needs no acknowledgement. */
static inline void bp_arch_gic_init(uintptr_t distributor, uintptr_t cpu_interface) {
    enum { VIRTUAL_TIMER = 27, CTLR = 0x000, ISENABLER0 = 0x100, PMR = 0x004 };
    *(volatile uint32_t *)(distributor + ISENABLER0) = 1u << VIRTUAL_TIMER;
    *(volatile uint32_t *)(distributor + CTLR) = 1;
    *(volatile uint32_t *)(cpu_interface + PMR) = 0xff; /* every priority */
    *(volatile uint32_t *)(cpu_interface + CTLR) = 1;
}

#endif
