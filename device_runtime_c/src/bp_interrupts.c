/* SPDX-License-Identifier: Apache-2.0 */
/* bp.interrupts: what the host must know about the board's interrupts. SPEC.md 5.10. */

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"
#include "bp_internal.h"

#if BP_CFG_INTERRUPTS

#if BP_CFG_INTERRUPTS > 1

/* The collectors that can leave interrupts out of windows: bit i is collector i. */
static uint32_t bp_skips(void) {
    const bp_collector_t *collector;
    uint32_t mask = 0;
    for (uint_fast8_t i = 0; (collector = bp_collector_at(i)) != NULL; i++) {
        mask |= BP_ROM_GET(collector->skip) != NULL ? (uint32_t)1 << i : 0;
    }
    return mask;
}

#endif

__attribute__((weak)) uint32_t bp_port_enabled_interrupts(void) {
    return 0;
}

static uint32_t bp_most_enabled; /* when windows began, since the host has asked */

void bp_see_interrupts(void) {
    uint32_t enabled = bp_port_enabled_interrupts();
    if (enabled > bp_most_enabled) {
        bp_most_enabled = enabled;
    }
}

/* [] -> [flags, timer_us, longest_us, skips, bound_ns, enabled] */
int bp_interrupts(bp_call_t *call) {
    if (bp_arg_end(call) != 0) {
        return call->err;
    }
    bp_port_interrupts_t port = BP_ROM_GET(bp_port_interrupts);
    uint32_t flags = BP_CFG_GUARD && port.masks_guard ? BP_INTERRUPT_MASKS_GUARD : 0;
    flags |= BP_CFG_BASEPRI != 0 ? BP_INTERRUPT_MASKS_SOME : 0;
#if BP_CFG_INTERRUPTS > 1
    flags |= port.triggers ? BP_INTERRUPT_TRIGGERS : 0;
#endif
    bp_ret_array(call, 6);
    bp_ret_uint(call, flags);
    bp_ret_uint(call, port.timer_us);
    bp_ret_uint(call, port.longest_us);
#if BP_CFG_INTERRUPTS > 1
    bp_ret_uint(call, bp_skips());
#else
    bp_ret_uint(call, 0);
#endif
    bp_ret_uint(call, port.bound_ns);
    bp_see_interrupts(); /* a function may have left some */
    bp_ret_uint(call, bp_most_enabled);
    bp_most_enabled = 0;
    return call->err;
}

#endif
