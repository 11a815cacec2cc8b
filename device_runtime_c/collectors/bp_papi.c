/* SPDX-License-Identifier: Apache-2.0 */
/* PAPI's events: presets, native and software-defined ones, by PAPI's names. Nothing counts until
 * the host selects something, and PAPI is not loaded before that. The event sets keep counting for
 * as long as a selection lasts: start and stop are one PAPI_read of each set.
 *
 * Events that do not fit together are refused, so that the host makes several passes. PAPI's
 * multiplexing would scale them without saying so. */

#include <string.h>

#include "boardprof/bp.h"
#include "bp_papi_list.h"
#include "bp_papi_sets.h"

static const char bp_papi_name[] BP_ROM = "papi";

static bp_event_t bp_papi_events[BP_PAPI_SLOTS];
static uint8_t bp_papi_selected; /* events, including those that cannot be counted */
static bp_papi_sets_t bp_papi_sets;

/// Slots ///

static void bp_papi_init(void) {
    bp_papi_sets_close(&bp_papi_sets);
    bp_papi_selected = 0;
}

static void bp_papi_counter(bp_counter_t *out, uint8_t index) {
    bp_event_counter(out, index, index < bp_papi_selected ? &bp_papi_events[index] : NULL);
}

/// Windows ///

/* The state is the blob's struct, two words for each slot; those of slots that are off stay 0. */
enum { BP_PAPI_START, BP_PAPI_STOP, BP_PAPI_WORDS };

_Static_assert(sizeof(bp_papi_t) == BP_PAPI_SLOTS * BP_PAPI_WORDS * sizeof(uint64_t),
               "two words a slot");

/* A read that fails leaves 0 at the start and -1 at the stop, or the other way round. The host
 * rejects both. */
static void bp_papi_read(const bp_papi_set_t *set, uint64_t *words, uint64_t failed) {
    const char *reason;
    long long values[BP_PAPI_SLOTS];
    bool read = bp_papi(&reason)->read(set->set, values) == BP_PAPI_OK;
    for (uint8_t i = 0; i < set->count; i++) {
        if (set->slot[i] != BP_PAPI_OFF) {
            words[set->slot[i] * BP_PAPI_WORDS] = read ? (uint64_t)values[i] : failed;
        }
    }
}

static void bp_papi_start(void *state) {
    memset(state, 0, sizeof(bp_papi_t));
    for (uint8_t i = 0; i < bp_papi_sets.sets; i++) {
        bp_papi_read(&bp_papi_sets.set[i], (uint64_t *)state + BP_PAPI_START, 0);
    }
}

static void bp_papi_stop(void *state) {
    for (uint8_t i = bp_papi_sets.sets; i-- != 0;) {
        bp_papi_read(&bp_papi_sets.set[i], (uint64_t *)state + BP_PAPI_STOP, UINT64_MAX);
    }
}

static void bp_papi_encode(uint8_t *out, const void *state) {
    bp_papi_put(out, state);
}

/// Packed functions ///

#if BP_CFG_OPEN_WINDOWS

static int bp_papi_select(bp_call_t *call) {
    bp_event_t events[BP_PAPI_SLOTS];
    uint8_t count = call->argc;
    if (count > BP_PAPI_SLOTS) {
        return bp_fail(call, BP_ERR_ARG_RANGE, count - BP_PAPI_SLOTS);
    }
    for (uint8_t i = 0; i < count; i++) {
        events[i] = (bp_event_t){.status = BP_COUNTER_OK};
        bp_event_arg_text(call, events[i].text, sizeof events[i].text);
    }
    if (bp_arg_end(call) != 0) {
        return call->err;
    }
    bp_papi_init();
    memcpy(bp_papi_events, events, count * sizeof events[0]);
    bp_papi_selected = count;
    bp_papi_sets_open(&bp_papi_sets, bp_papi_events, count);
    bp_ret_array(call, count);
    for (uint8_t i = 0; i < count; i++) {
        bp_event_ret_selected(call, &bp_papi_events[i]);
    }
    return call->err;
}

static int bp_papi_event(bp_call_t *call) {
    char description[BP_EVENT_TEXT];
    bp_event_t event;
    uint32_t index = bp_arg_u32(call);
    if (bp_arg_end(call) != 0) {
        return call->err;
    }
    if (!bp_papi_list_at(&event, description, index)) {
        bp_ret_nil(call);
        return call->err;
    }
    bp_event_ret_listed(call, event.text, description, &event);
    return call->err;
}

#endif

const bp_collector_t bp_collector_papi BP_ROM = {
    .name = bp_papi_name,
    .init = bp_papi_init,
    .start = bp_papi_start,
    .stop = bp_papi_stop,
    .encode = bp_papi_encode,
    .counter = bp_papi_counter,
#if BP_CFG_OPEN_WINDOWS
    .select = bp_papi_select,
    .event = bp_papi_event,
#endif
    .layout_crc = BP_PAPI_CRC,
    .schema_id = BP_PAPI_SCHEMA,
    .body_length = BP_PAPI_LEN,
    .version = BP_PAPI_VERSION,
    .state_bytes = sizeof(bp_papi_t),
    .counters = BP_PAPI_SLOTS,
};
