/* SPDX-License-Identifier: Apache-2.0 */
/* Events of Linux: perf_event_open(2) for the thread that runs the agent. The host selects them by
 * the names that perf uses. Without a selection the events below count, as far as they are
 * available. The file descriptors stay open and the events keep counting: start and stop are one
 * read(2) for each group. */

#include <stdio.h>
#include <string.h>

#include "boardprof/bp.h"
#include "bp_perf_groups.h"
#include "bp_perf_sysfs.h"

static const char *const bp_perf_defaults[BP_PERF_SLOTS] = {
    "task-clock",   "page-faults", "context-switches", "cpu-migrations",   "cycles",
    "instructions", "branches",    "branch-misses",    "cache-references", "cache-misses",
};

static const char bp_linux_perf_name[] BP_ROM = "perf";

static bp_perf_event_t bp_perf_events[BP_PERF_SLOTS];
static uint8_t bp_perf_selected; /* events, including those that cannot be counted */
static bp_perf_groups_t bp_perf_groups;
static bool bp_perf_opened;

/// Slots ///

static void bp_linux_perf_close(void) {
    if (bp_perf_opened) {
        bp_perf_groups_close(&bp_perf_groups);
        bp_perf_opened = false;
    }
}

/* An agent may be a library that is unloaded: it must not leave file descriptors open. */
__attribute__((destructor)) static void bp_linux_perf_end(void) {
    bp_linux_perf_close();
}

/* Replaces the previous selection. */
static void bp_perf_program(const bp_perf_event_t *events, uint8_t count) {
    bp_linux_perf_close();
    memcpy(bp_perf_events, events, count * sizeof *events);
    bp_perf_selected = count;
    bp_perf_groups_open(&bp_perf_groups, bp_perf_events, count);
    bp_perf_opened = true;
}

static void bp_linux_perf_init(void) {
    bp_perf_event_t events[BP_PERF_SLOTS];
    for (uint8_t i = 0; i < BP_PERF_SLOTS; i++) {
        (void)bp_perf_event_parse(&events[i], bp_perf_defaults[i]);
    }
    bp_perf_program(events, BP_PERF_SLOTS);
}

static void bp_linux_perf_counter(bp_counter_t *out, uint8_t index) {
    bp_event_counter(out, index, index < bp_perf_selected ? &bp_perf_events[index].told : NULL);
}

/// Windows ///

/* The state is the blob's struct, four words for each slot; those of slots that are off stay 0. */
enum { BP_PERF_START, BP_PERF_STOP, BP_PERF_ENABLED, BP_PERF_RUNNING, BP_PERF_WORDS };

_Static_assert(sizeof(bp_linux_perf_t) == BP_PERF_SLOTS * BP_PERF_WORDS * sizeof(uint64_t),
               "four words a slot");

static void bp_linux_perf_start(void *state) {
    uint64_t *words = state;
    bp_perf_read_t now;
    memset(words, 0, sizeof(bp_linux_perf_t));
    for (uint8_t g = 0; g < bp_perf_groups.groups; g++) {
        const bp_perf_group_t *group = &bp_perf_groups.group[g];
        bool read = bp_perf_group_read(&bp_perf_groups, g, &now);
        for (uint8_t i = 0; read && i < group->count; i++) {
            uint64_t *slot = words + group->slot[i] * BP_PERF_WORDS;
            slot[BP_PERF_START] = now.value[i];
            slot[BP_PERF_ENABLED] = now.enabled;
            slot[BP_PERF_RUNNING] = now.running;
        }
    }
}

/* A group that could not be read gets enabled time but no running time: no count. */
static void bp_linux_perf_stop(void *state) {
    uint64_t *words = state;
    bp_perf_read_t now;
    for (uint8_t g = bp_perf_groups.groups; g-- != 0;) {
        const bp_perf_group_t *group = &bp_perf_groups.group[g];
        bool read = bp_perf_group_read(&bp_perf_groups, g, &now);
        for (uint8_t i = 0; i < group->count; i++) {
            uint64_t *slot = words + group->slot[i] * BP_PERF_WORDS;
            slot[BP_PERF_STOP] = read ? now.value[i] : slot[BP_PERF_START];
            slot[BP_PERF_ENABLED] = read ? now.enabled - slot[BP_PERF_ENABLED] : 1;
            slot[BP_PERF_RUNNING] = read ? now.running - slot[BP_PERF_RUNNING] : 0;
        }
    }
}

static void bp_linux_perf_encode(uint8_t *out, const void *state) {
    bp_linux_perf_put(out, state);
}

/// Packed functions ///

#if BP_CFG_OPEN_WINDOWS

static int bp_linux_perf_select(bp_call_t *call) {
    bp_perf_event_t events[BP_PERF_SLOTS];
    char text[BP_PERF_TEXT + 1]; /* one byte more, to detect a text that is too long */
    uint8_t count = call->argc;
    if (count > BP_PERF_SLOTS) {
        return bp_fail(call, BP_ERR_ARG_RANGE, count - BP_PERF_SLOTS);
    }
    for (uint8_t i = 0; i < count; i++) {
        bp_event_arg_text(call, text, sizeof text);
        (void)bp_perf_event_parse(&events[i], text);
    }
    if (bp_arg_end(call) != 0) {
        return call->err;
    }
    bp_perf_program(events, count);
    bp_ret_array(call, count);
    for (uint8_t i = 0; i < count; i++) {
        bp_event_ret_selected(call, &bp_perf_events[i].told);
    }
    return call->err;
}

/* To find out whether an event can be counted, count it alone. */
static void bp_perf_probe(bp_perf_event_t *event, const char *name) {
    bp_perf_groups_t alone;
    (void)bp_perf_event_parse(event, name);
    bp_perf_groups_open(&alone, event, 1);
    bp_perf_groups_close(&alone);
}

static int bp_linux_perf_event(bp_call_t *call) {
    char name[BP_PERF_TEXT];
    char description[BP_PERF_TEXT];
    bp_perf_event_t event;
    uint32_t index = bp_arg_u32(call);
    if (bp_arg_end(call) != 0) {
        return call->err;
    }
    uint32_t generic = bp_perf_name_count();
    bool found = index < generic;
    if (found) {
        bp_perf_name_at(name, description, sizeof name, index);
    } else {
        snprintf(description, sizeof description, "named by the kernel for this machine");
        found = bp_perf_sysfs_at(name, sizeof name, index - generic);
    }
    if (!found) {
        bp_ret_nil(call);
        return call->err;
    }
    bp_perf_probe(&event, name);
    bp_event_ret_listed(call, name, description, &event.told);
    return call->err;
}

#endif

const bp_collector_t bp_collector_linux_perf BP_ROM = {
    .name = bp_linux_perf_name,
    .init = bp_linux_perf_init,
    .start = bp_linux_perf_start,
    .stop = bp_linux_perf_stop,
    .encode = bp_linux_perf_encode,
    .counter = bp_linux_perf_counter,
#if BP_CFG_OPEN_WINDOWS
    .select = bp_linux_perf_select,
    .event = bp_linux_perf_event,
#endif
    .layout_crc = BP_LINUX_PERF_CRC,
    .schema_id = BP_LINUX_PERF_SCHEMA,
    .body_length = BP_LINUX_PERF_LEN,
    .version = BP_LINUX_PERF_VERSION,
    .state_bytes = sizeof(bp_linux_perf_t),
    .counters = BP_PERF_SLOTS,
};
