/* SPDX-License-Identifier: Apache-2.0 */
/* A collector's init, start, stop, select and event as packed functions. The host can open windows
 * around any calls, and choose the events of programmable counters. SPEC.md 5.3. */

#include "boardprof/bp.h"
#include "bp_internal.h"

#if BP_CFG_OPEN_WINDOWS

typedef struct {
    bp_state_t state;
    const bp_collector_t *collector; /* NULL: free */
} bp_open_window_t;

static bp_open_window_t bp_open_windows[BP_CFG_OPEN_WINDOWS];

void bp_window_forget(const bp_collector_t *collector) {
    for (uint8_t i = 0; i < BP_CFG_OPEN_WINDOWS; i++) {
        if (collector == NULL || bp_open_windows[i].collector == collector) {
            bp_open_windows[i].collector = NULL;
        }
    }
}

static int bp_window_init(bp_call_t *call, const bp_collector_t *collector) {
    if (bp_arg_end(call) == 0) {
        /* init may reset counters, which would make the start of an open window meaningless. */
        bp_window_forget(collector);
        BP_ROM_GET(collector->init)();
        bp_ret_nil(call);
    }
    return call->err;
}

/* Returns the window's number. The reply is written first, so that the counters are read last. */
static int bp_window_start(bp_call_t *call, const bp_collector_t *collector) {
    if (bp_arg_end(call) != 0) {
        return call->err;
    }
    if (BP_ROM_GET(collector->state_bytes) > BP_CFG_STATE_BYTES) {
        return bp_fail(call, BP_ERR_NO_MEMORY, BP_CFG_STATE_BYTES);
    }
    for (uint8_t i = 0; i < BP_CFG_OPEN_WINDOWS; i++) {
        bp_open_window_t *window = &bp_open_windows[i];
        if (window->collector == NULL) {
            window->collector = collector;
            bp_ret_uint(call, i);
            BP_ROM_GET(collector->start)(&window->state);
            return call->err;
        }
    }
    return bp_fail(call, BP_ERR_NO_MEMORY, BP_CFG_OPEN_WINDOWS);
}

/* Takes the window's number, returns its blob. */
static int bp_window_stop(bp_call_t *call, const bp_collector_t *collector) {
    uint32_t number = bp_arg_u32(call);
    if (bp_arg_end(call) != 0) {
        return call->err;
    }
    if (number >= BP_CFG_OPEN_WINDOWS || bp_open_windows[number].collector != collector) {
        return bp_fail(call, BP_ERR_BAD_HANDLE, number);
    }
    bp_open_window_t *window = &bp_open_windows[number];
    BP_ROM_GET(collector->stop)(&window->state);
    uint8_t *out = bp_ret_bin(call, bp_blob_length(collector));
    if (out != NULL) {
        bp_blob_put(out, collector, &window->state);
        window->collector = NULL;
    }
    return call->err;
}

/* Close open windows: their counters now count other events, or from another value. */
static int bp_window_select(bp_call_t *call, const bp_collector_t *collector) {
    if (BP_ROM_GET(collector->select)(call) == 0) {
        bp_window_forget(collector);
    }
    return call->err;
}

int bp_window_call(bp_call_t *call, const bp_collector_t *collector, uint8_t operation) {
    /* Not a switch or a chain of ==: GCC makes a jump table of both, which needs a libgcc function
     * on ARMv6-M. */
    if (operation < 2) {
        return operation != 0 ? bp_window_start(call, collector) : bp_window_init(call, collector);
    }
    if (operation < 4) {
        return operation != 2 ? bp_window_select(call, collector) : bp_window_stop(call, collector);
    }
    return BP_ROM_GET(collector->event)(call);
}

#endif
