/* SPDX-License-Identifier: Apache-2.0 */
/* What the host must know of the board's interrupts. SPEC.md 5.10. */

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"
#include "bp_internal.h"

#if BP_CFG_INTERRUPTS

/* [] -> [flags, timer_us, longest_us] */
int bp_interrupts(bp_call_t *call) {
    if (bp_arg_end(call) == 0) {
        bool masks_guard = BP_ROM_GET(bp_port_interrupts.masks_guard);
        bp_ret_array(call, 3);
        bp_ret_uint(call, BP_CFG_GUARD && masks_guard ? BP_INTERRUPT_MASKS_GUARD : 0);
        bp_ret_uint(call, BP_ROM_GET(bp_port_interrupts.timer_us));
        bp_ret_uint(call, BP_ROM_GET(bp_port_interrupts.longest_us));
    }
    return call->err;
}

#endif
