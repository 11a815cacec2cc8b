/* SPDX-License-Identifier: Apache-2.0 */
/* An event that the host selects by a text, and the reply about it. SPEC.md 5.3. */

#ifndef BOARDPROF_BP_EVENT_H
#define BOARDPROF_BP_EVENT_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "boardprof/bp.h"

enum { BP_EVENT_SLOTS = 10, BP_EVENT_TEXT = 200, BP_EVENT_REASON = 240 };

typedef struct {
    char text[BP_EVENT_TEXT];
    char reason[BP_EVENT_REASON]; /* why it cannot be counted, as a text; empty: it can */
    uint8_t status;               /* enum bp_counter_status */
    int error;                    /* errno of a refusal, else 0 */
    bool is_time;                 /* counts ns */
} bp_event_t;

static inline void bp_event_accept(bp_event_t *event) {
    event->status = BP_COUNTER_OK;
    event->error = 0;
    event->reason[0] = 0;
}

static inline void bp_event_refuse(bp_event_t *event, uint8_t status, int error,
                                   const char *reason) {
    event->status = status;
    event->error = error;
    snprintf(event->reason, sizeof event->reason, "%s", reason);
}

static inline uint32_t bp_event_hz(const bp_event_t *event) {
    return event->is_time ? 1000000000u : 0;
}

/* Describe slot `index`, which counts `event`. NULL: the slot is off. */
static inline void bp_event_counter(bp_counter_t *out, uint8_t index, const bp_event_t *event) {
    static const char names[BP_EVENT_SLOTS][6] BP_ROM = {
        "slot0", "slot1", "slot2", "slot3", "slot4", "slot5", "slot6", "slot7", "slot8", "slot9"};
    out->name = names[index];
    out->bits = 64;
    out->status = BP_COUNTER_ABSENT;
    if (event != NULL) {
        out->source = event->text;
        out->hz = bp_event_hz(event);
        out->status = event->status;
        out->detail = (uint32_t)event->error;
    }
}

/* Take the next argument, a text, into `size` bytes; a longer text is cut. */
static inline void bp_event_arg_text(bp_call_t *call, char *out, size_t size) {
    size_t length;
    const uint8_t *bytes = bp_arg_bytes(call, &length);
    memset(out, 0, size);
    if (bytes != NULL) {
        memcpy(out, bytes, length < size ? length : size - 1);
    }
}

/* Write an item of the reply of NAME.select. */
static inline void bp_event_ret_selected(bp_call_t *call, const bp_event_t *event) {
    bp_ret_array(call, 5);
    bp_ret_uint(call, event->status);
    bp_ret_uint(call, (uint32_t)event->error);
    bp_ret_uint(call, bp_event_hz(event));
    bp_ret_text(call, event->text);
    bp_ret_text(call, event->reason);
}

/* Write the reply of NAME.event. */
static inline void bp_event_ret_listed(bp_call_t *call, const char *name, const char *description,
                                       const bp_event_t *event) {
    bp_ret_array(call, 5);
    bp_ret_text(call, name);
    bp_ret_text(call, description);
    bp_ret_uint(call, event->status);
    bp_ret_uint(call, (uint32_t)event->error);
    bp_ret_text(call, event->reason);
}

#endif
