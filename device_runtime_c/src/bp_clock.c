/* SPDX-License-Identifier: Apache-2.0 */
/* bp.clock: the tick counter when the call arrives and when its reply is sent. The host uses this
 * to relate the board's clock to its own. SPEC.md 5.7. */

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"
#include "bp_internal.h"

#if BP_CFG_CLOCK

/* [] -> [received, sent, hz, bits] */
int bp_clock(bp_call_t *call) {
    uint32_t hz = BP_ROM_GET(bp_port_clock.ticks_hz);
    bp_arg_end(call);
    if (hz == 0) {
        bp_fail(call, BP_ERR_UNSUPPORTED, 0);
    }
    bp_ret_array(call, 4); /* after an error, none of these does anything */
    bp_ret_u64(call, bp_agent.received);
    bp_ret_u64(call, bp_port_ticks());
    bp_ret_uint(call, hz);
    bp_ret_uint(call, BP_ROM_GET(bp_port_clock.ticks_bits));
    return call->err;
}

#endif
