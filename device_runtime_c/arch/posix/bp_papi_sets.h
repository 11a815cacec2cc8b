/* SPDX-License-Identifier: Apache-2.0 */
/* The selected PAPI events, in event sets that count until the next selection. There is one set for
 * each component, since PAPI does not mix components in a set. */

#ifndef BOARDPROF_BP_PAPI_SETS_H
#define BOARDPROF_BP_PAPI_SETS_H

#include "bp_event.h"
#include "bp_papi_lib.h"

enum { BP_PAPI_SLOTS = BP_EVENT_SLOTS, BP_PAPI_OFF = 255 };

/* A running event set, and the slots of its events in PAPI's order, or BP_PAPI_OFF. */
typedef struct {
    int set;
    int component;
    uint8_t count;
    uint8_t slot[BP_PAPI_SLOTS];
} bp_papi_set_t;

typedef struct {
    bp_papi_set_t set[BP_PAPI_SLOTS];
    uint8_t sets;
} bp_papi_sets_t;

/* Add `count` events, one for each slot, by their `text`, and start them. An event that cannot be
 * counted has a status that says so. */
void bp_papi_sets_open(bp_papi_sets_t *out, bp_event_t *events, uint8_t count);

void bp_papi_sets_close(bp_papi_sets_t *sets);

/* Find out whether an event can be counted, by adding it to an event set for itself. */
void bp_papi_probe(bp_event_t *event);

#endif
