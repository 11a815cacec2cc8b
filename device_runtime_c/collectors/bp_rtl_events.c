/* SPDX-License-Identifier: Apache-2.0 */
/* The counters of events in the system around a core that is simulated from its RTL, as eight
 * slots: simulator/rtl/events.sv. The events are those of the board's rtl/core.sv. */

#include "boardprof/bp.h"
#include "bp_arch.h"

enum { BP_SLOTS = 8 };

#define BP_EVENTS 0x80004000u
#define BP_EVENTS_COUNT(slot) (BP_EVENTS + 8u * (slot))
#define BP_EVENTS_SELECT(slot) (*(volatile uint32_t *)(BP_EVENTS + 0x80u + 4u * (slot)))

static const char bp_rtl_events_name[] BP_ROM = "rtl_events";
static const char bp_rtl_slots[BP_SLOTS][8] BP_ROM = {"slot0", "slot1", "slot2", "slot3",
                                                      "slot4", "slot5", "slot6", "slot7"};
static const char bp_rtl_source[] BP_ROM = "the system's counters of events";

static uint8_t bp_rtl_status[BP_SLOTS]; /* enum bp_counter_status */
static uint_fast8_t bp_rtl_used;        /* slots that were selected, from the first on */

static void bp_rtl_all_off(void) {
    for (uint_fast8_t i = 0; i < BP_SLOTS; i++) {
        BP_EVENTS_SELECT(i) = 0;
        bp_rtl_status[i] = BP_COUNTER_ABSENT;
    }
    bp_rtl_used = 0;
}

#if BP_CFG_OPEN_WINDOWS

/* A core has the events 0 to 31. The register has 0 for none. */
static uint8_t bp_rtl_program(const uintptr_t *events, uint_fast8_t slot) {
    uint32_t wanted = (uint32_t)events[slot] + 1u;
    BP_EVENTS_SELECT(slot) = wanted;
    bp_rtl_used = slot + 1;
    return BP_EVENTS_SELECT(slot) == wanted ? BP_COUNTER_OK : BP_COUNTER_ABSENT;
}

static int bp_rtl_events_select(bp_call_t *call) {
    static const bp_select_t select = {
        .largest = 31,
        .all_off = bp_rtl_all_off,
        .program = bp_rtl_program,
        .status = bp_rtl_status,
        .slots = BP_SLOTS,
    };
    return bp_select_slots(call, &select);
}

#endif

/* The state is the values of all slots at the start, and then those at the stop. Slots that are not
 * selected are not read, and sent as 0. */
static void bp_rtl_events_start(void *state) {
    uint64_t *at = state;
    for (uint_fast8_t i = bp_rtl_used; i-- != 0;) {
        at[i] = bp_arch_counter_at(BP_EVENTS_COUNT(i));
    }
}

static void bp_rtl_events_stop(void *state) {
    uint64_t *at = (uint64_t *)state + BP_SLOTS;
    for (uint_fast8_t i = 0; i < bp_rtl_used; i++) {
        at[i] = bp_arch_counter_at(BP_EVENTS_COUNT(i));
    }
}

static void bp_rtl_events_encode(uint8_t *out, const void *state) {
    bp_rtl_events_t s = *(const bp_rtl_events_t *)state;
    uint64_t *at = (uint64_t *)&s;
    for (uint_fast8_t i = bp_rtl_used; i < BP_SLOTS; i++) {
        at[i] = at[BP_SLOTS + i] = 0;
    }
    bp_rtl_events_put(out, &s);
}

static void bp_rtl_events_counter(bp_counter_t *out, uint8_t index) {
    out->name = bp_rtl_slots[index];
    out->source = bp_rtl_source;
    out->bits = 64;
    out->status = bp_rtl_status[index];
}

const bp_collector_t bp_collector_rtl_events BP_ROM = {
    .name = bp_rtl_events_name,
    .init = bp_rtl_all_off,
    .start = bp_rtl_events_start,
    .stop = bp_rtl_events_stop,
    .encode = bp_rtl_events_encode,
    .counter = bp_rtl_events_counter,
#if BP_CFG_OPEN_WINDOWS
    .select = bp_rtl_events_select,
#endif
#if BP_CFG_INTERRUPTS > 1
    .skip = bp_rtl_events_skip,
#endif
    .layout_crc = BP_RTL_EVENTS_CRC,
    .schema_id = BP_RTL_EVENTS_SCHEMA,
    .body_length = BP_RTL_EVENTS_LEN,
    .version = BP_RTL_EVENTS_VERSION,
    .state_bytes = sizeof(bp_rtl_events_t),
    .counters = BP_SLOTS,
};
