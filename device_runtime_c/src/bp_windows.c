/* SPDX-License-Identifier: Apache-2.0 */
/* A collector's init, start and stop as packed functions: windows around any calls of the host; and
 * what chooses the events of programmable counters. */

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
        /* Counters may begin anew: a window that is open would subtract from another origin. */
        bp_window_forget(collector);
        BP_ROM_GET(collector->init)();
        bp_ret_nil(call);
    }
    return call->err;
}

/* Returns the window's number. The counters are read last, the reply is made after. */
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

/* Slots count from another origin now, or something else: open windows mean nothing. */
static int bp_window_select(bp_call_t *call, const bp_collector_t *collector) {
    if (BP_ROM_GET(collector->select)(call) == 0) {
        bp_window_forget(collector);
    }
    return call->err;
}

int bp_window_call(bp_call_t *call, const bp_collector_t *collector, uint8_t operation) {
    /* No chain of equals: of that GCC makes a table, which on ARMv6-M needs a function of libgcc.
     */
    if (operation < 2) {
        return operation != 0 ? bp_window_start(call, collector) : bp_window_init(call, collector);
    }
    if (operation < 4) {
        return operation != 2 ? bp_window_select(call, collector) : bp_window_stop(call, collector);
    }
    return BP_ROM_GET(collector->event)(call);
}

#endif
