/* SPDX-License-Identifier: Apache-2.0 */
/* bp.heap: what the rounds of bp.measure have kept of the C library's heap, and how often it had no
 * memory left. SPEC.md 5.13. */

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"
#include "bp_internal.h"

#if BP_CFG_HEAP

/* Since the start. */
typedef struct {
    uint32_t refused; /* rounds in which memory was refused */
    uint32_t keeping; /* rounds after which more was taken than before */
    uint32_t bytes;   /* that the last of these has kept */
} bp_heap_sum_t;

static bp_heap_sum_t bp_heap_sums[2]; /* of warm-ups, of samples */

static bp_port_heap_t bp_heap_before;

/* Where refusals are not counted, they are inferred: a function that has kept memory no longer
 * does, and less is left than one of its rounds has kept. */
static void (*bp_heap_function)(void);
static uint32_t bp_heap_most; /* bytes that one of its rounds has kept */

__attribute__((weak)) bool bp_port_heap(bp_port_heap_t *out) {
    (void)out;
    return false;
}

void bp_heap_round_begin(void (*function)(void)) {
    (void)bp_port_heap(&bp_heap_before);
    if (function != bp_heap_function) {
        bp_heap_function = function;
        bp_heap_most = 0;
    }
}

void bp_heap_round_end(bool measured) {
    bp_heap_sum_t *sum = &bp_heap_sums[measured ? 1 : 0];
    bp_port_heap_t now;
    if (!bp_port_heap(&now)) {
        return;
    }
    uint32_t kept = now.taken > bp_heap_before.taken ? now.taken - bp_heap_before.taken : 0;
    if (kept != 0) {
        sum->keeping++;
        sum->bytes = kept;
        bp_heap_most = kept > bp_heap_most ? kept : bp_heap_most;
    }
    if (now.refused != bp_heap_before.refused || (kept == 0 && now.room < bp_heap_most)) {
        sum->refused++;
    }
}

/* [] -> [refused, keeping, bytes] of warm-ups and then of samples, or nil */
int bp_heap(bp_call_t *call) {
    bp_port_heap_t now;
    if (bp_arg_end(call) != 0) {
        return call->err;
    }
    if (!bp_port_heap(&now)) {
        bp_ret_nil(call);
        return call->err;
    }
    bp_ret_array(call, 6);
    for (uint_fast8_t i = 0; i < 2; i++) {
        bp_ret_uint(call, bp_heap_sums[i].refused);
        bp_ret_uint(call, bp_heap_sums[i].keeping);
        bp_ret_uint(call, bp_heap_sums[i].bytes);
    }
    return call->err;
}

#endif
