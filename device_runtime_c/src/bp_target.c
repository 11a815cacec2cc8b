/* SPDX-License-Identifier: Apache-2.0 */
/* A plain C function called like a packed one: unpack, set up, call once, check, pack. */

#include "boardprof/bp.h"
#include "bp_internal.h"

static void bp_thunk_void(bp_fn_t *fn, void *slots) {
    (void)slots;
    fn();
}

typedef struct {
    const bp_target_t *target;
    bp_slots_t *slots;
    int failed; /* what the check returned */
} bp_single_t;

/* Set-up, call and check, guarded as one. */
static void bp_single(void *context) {
    bp_single_t *s = context;
    const bp_target_t *target = s->target;
    if (target->setup != NULL) {
        target->setup();
    }
    target->thunk(target->fn, s->slots);
    s->failed = target->check != NULL ? target->check() : 0;
}

int bp_call_target(bp_call_t *call, const bp_target_t *target) {
    bp_slots_t slots;
    bp_target_t t;
    if (bp_target_open(call, target, &t, &slots) != 0) {
        return call->err;
    }
    bp_single_t single = {.target = &t, .slots = &slots};
    bp_spans_put_back();
    if (!bp_guarded(call, bp_single, &single)) {
        return call->err;
    }
    if (single.failed != 0) {
        return bp_fail(call, BP_ERR_CHECK_FAILED, (uint32_t)single.failed);
    }
    bp_pack_result(call, &t, &slots);
    return call->err;
}

int bp_target_open(bp_call_t *call, const bp_target_t *rom, bp_target_t *out, bp_slots_t *slots) {
    *out = BP_ROM_GET(*rom);
    if (out->thunk == NULL) {
        out->thunk = bp_thunk_void;
    }
    if (out->unpack != NULL) {
        bp_fail(call, out->unpack(call, slots), 0);
    }
    return bp_arg_end(call);
}
