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

/* The kernel's switch, which finds nothing to do. */
void bp_port_interrupt(void) {
    k_core_interrupt();
}
#endif
#endif
