/* SPDX-License-Identifier: Apache-2.0 */
/* Guarded calls: a fault or a hang in a called function becomes the ERROR of its call. The port
 * catches it (bp_port_guard); this file reports it. SPEC.md 4.2, 5.6. */

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"
#include "bp_internal.h"

#if BP_CFG_GUARD

/* [timeout_ms] -> nil */
int bp_guard(bp_call_t *call) {
    uint32_t timeout_ms = bp_arg_u32(call);
    if (bp_arg_end(call) == 0) {
        bp_agent.guard_ms = timeout_ms;
        bp_ret_nil(call);
    }
    return call->err;
}

bool bp_guarded(bp_call_t *call, void (*body)(void *context), void *context) {
    bp_fault_t *fault = &bp_agent.fault;
    bp_port_guard(body, context, bp_agent.guard_ms, fault);
    if (fault->cause == BP_FAULT_NONE) {
        return true;
    }
    /* Not bp_fail, which keeps the first error: a packed function may have set an error before it
     * trapped. */
    bool hung = fault->cause == BP_FAULT_TIME_OUT;
    call->err = hung ? BP_ERR_TIMEOUT : BP_ERR_FAULT;
    call->detail = hung ? bp_agent.guard_ms : fault->cause;
    return false;
}

typedef struct {
    bp_packed_t *packed;
    bp_call_t *call;
} bp_packed_call_t;

static void bp_packed_body(void *context) {
    const bp_packed_call_t *c = context;
    bp_fail(c->call, c->packed(c->call), 0);
}

int bp_guarded_packed(bp_call_t *call, bp_packed_t *packed) {
    bp_packed_call_t c = {.packed = packed, .call = call};
    bp_guarded(call, bp_packed_body, &c);
    return call->err;
}

void bp_ret_error(bp_call_t *call, uint8_t code, uint32_t detail) {
    bool trapped = bp_agent.fault.cause != BP_FAULT_NONE;
    bp_ret_array(call, trapped ? 4 : 2);
    bp_ret_uint(call, code);
    bp_ret_uint(call, detail);
    if (trapped) {
        bp_ret_u64(call, bp_agent.fault.pc);
        bp_ret_u64(call, bp_agent.fault.address);
    }
}

#endif
