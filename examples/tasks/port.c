/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent asks of this firmware. */

#include "agent_port.c"
#include "bp_arch_mask.h"

#if BP_CFG_INTERRUPTS
const bp_port_interrupts_t bp_port_interrupts = {
    .triggers = true,
};

#if BP_CFG_INTERRUPTS > 1
#include "kernel.h"

/* The kernel's switch: it finds nothing to do, if only one task of this priority is ready. */
void bp_port_interrupt(void) {
    k_core_switch();
}
#endif
#endif
