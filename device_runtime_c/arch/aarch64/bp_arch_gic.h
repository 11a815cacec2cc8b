/* SPDX-License-Identifier: Apache-2.0 */
/* The way of the virtual timer's interrupt to the core: a GICv2 (Arm Generic Interrupt Controller
 * Architecture Specification, IHI 0048, 4.3 and 4.4), of which nothing else is used. */

#ifndef BP_ARCH_GIC_H
#define BP_ARCH_GIC_H

#include <stdint.h>

/* The interrupt is the core's own, 27 by rule (Server Base System Architecture, DEN 0029). It is
 * there for as long as the timer asks for it, so that nobody has to acknowledge it. */
static inline void bp_arch_gic_init(uintptr_t distributor, uintptr_t cpu_interface) {
    enum { VIRTUAL_TIMER = 27, CTLR = 0x000, ISENABLER0 = 0x100, PMR = 0x004 };
    *(volatile uint32_t *)(distributor + ISENABLER0) = 1u << VIRTUAL_TIMER;
    *(volatile uint32_t *)(distributor + CTLR) = 1;
    *(volatile uint32_t *)(cpu_interface + PMR) = 0xff; /* every priority */
    *(volatile uint32_t *)(cpu_interface + CTLR) = 1;
}

#endif
