/* SPDX-License-Identifier: Apache-2.0 */

#include "bp_papi_list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boardprof/bp_wire.h"

/* An event's code, or a component that is disabled. */
typedef struct {
    int code;
    int disabled; /* its index, or -1 */
} bp_papi_entry_t;

static bp_papi_entry_t *bp_papi_entries; /* from malloc */
static uint32_t bp_papi_count;
static uint32_t bp_papi_room;

static void bp_papi_list_add(int code, int disabled) {
    if (bp_papi_count == bp_papi_room) {
        uint32_t room = bp_papi_room == 0 ? 256 : 2 * bp_papi_room;
        bp_papi_entry_t *more = realloc(bp_papi_entries, room * sizeof *more);
        if (more == NULL) {
            return;
        }
        bp_papi_entries = more;
        bp_papi_room = room;
    }
    bp_papi_entries[bp_papi_count++] = (bp_papi_entry_t){code, disabled};
}

static void bp_papi_list_component(const bp_papi_api_t *papi, int component) {
    int code = BP_PAPI_NATIVE;
    int error = papi->enum_cmp_event(&code, BP_PAPI_ENUM_FIRST, component);
    while (error == BP_PAPI_OK) {
        bp_papi_list_add(code, -1);
        error = papi->enum_cmp_event(&code, BP_PAPI_ENUM_EVENTS, component);
    }
    /* After that call: some components are initialised only then, and are disabled until then. */
    const bp_papi_component_t *info = papi->get_component_info(component);
    if (info != NULL && info->disabled != 0) {
        bp_papi_list_add(0, component);
    }
}

static void bp_papi_list(const bp_papi_api_t *papi) {
    bp_papi_count = 0;
    int code = BP_PAPI_PRESET;
    int error = papi->enum_event(&code, BP_PAPI_ENUM_FIRST);
    while (error == BP_PAPI_OK) {
        bp_papi_list_add(code, -1);
        error = papi->enum_event(&code, BP_PAPI_ENUM_EVENTS);
    }
    for (int i = 0; i < papi->num_components(); i++) {
        bp_papi_list_component(papi, i);
    }
}

static void bp_papi_describe_component(bp_event_t *out, char *description,
                                       const bp_papi_component_t *info) {
    snprintf(description, BP_EVENT_TEXT, "%.100s: %.90s", info->name, info->description);
    out->status = BP_COUNTER_ABSENT;
    snprintf(out->reason, sizeof out->reason, "%.200s",
             info->disabled_reason[0] != 0 ? info->disabled_reason : "PAPI has it disabled");
}

static void bp_papi_describe_event(bp_event_t *out, char *description, const bp_papi_api_t *papi,
                                   int code) {
    static bp_papi_event_info_t info;
    char name[BP_PAPI_NAME] = "";
    memset(&info, 0, sizeof info);
    (void)papi->event_code_to_name(code, name);
    snprintf(out->text, sizeof out->text, "%.*s", BP_EVENT_TEXT - 1, name);
    if (papi->get_event_info(code, &info) == BP_PAPI_OK) {
        snprintf(description, BP_EVENT_TEXT, "%.*s", BP_EVENT_TEXT - 1, info.description);
    }
    bp_papi_probe(out);
}

bool bp_papi_list_at(bp_event_t *out, char *description, uint32_t index) {
    const char *reason;
    const bp_papi_api_t *papi = bp_papi(&reason);
    *out = (bp_event_t){.status = BP_COUNTER_OK};
    *description = 0;
    if (papi == NULL) {
        snprintf(description, BP_EVENT_TEXT, "all of PAPI's events");
        bp_papi_probe(out);
        return index == 0;
    }
    if (index == 0) {
        bp_papi_list(papi);
    }
    if (index >= bp_papi_count) {
        return false;
    }
    const bp_papi_entry_t *entry = &bp_papi_entries[index];
    if (entry->disabled >= 0) {
        bp_papi_describe_component(out, description, papi->get_component_info(entry->disabled));
    } else {
        bp_papi_describe_event(out, description, papi, entry->code);
    }
    return true;
}
