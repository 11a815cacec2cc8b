/* SPDX-License-Identifier: Apache-2.0 */
/* The body of `select`, for collectors whose events are numbers. SPEC.md 5.3. */

#include "boardprof/bp.h"

#if BP_CFG_OPEN_WINDOWS

/* [event, ...] -> [[status, detail], ...] */
int bp_select_slots(bp_call_t *call, const bp_select_t *select) {
    uintptr_t events[BP_SELECT_MOST];
    uint_fast8_t count = call->argc;
    if (count > select->slots) {
        return bp_fail(call, BP_ERR_ARG_RANGE, select->slots);
    }
    for (uint_fast8_t i = 0; i < count; i++) {
        events[i] = (uintptr_t)bp_arg_uint(call, select->largest);
    }
    if (bp_arg_end(call) != 0) {
        return call->err;
    }
    select->all_off();
    bp_ret_array(call, (uint8_t)count);
    for (uint_fast8_t i = 0; i < count; i++) {
        select->status[i] = select->program(events, i);
        bp_ret_array(call, 2);
        bp_ret_uint(call, select->status[i]);
        bp_ret_uint(call, 0);
    }
    return call->err;
}

#endif
