/* SPDX-License-Identifier: Apache-2.0 */

#define _GNU_SOURCE /* geteuid, strcasestr */

#include "bp_papi_sets.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "boardprof/bp_wire.h"
#include "bp_perf_event.h"

/// Why an event cannot be counted ///

/* PAPI reports a lack of permission as no event, no permission, or a failed system call. */
static void bp_papi_add_hint(bp_event_t *event) {
    int level = bp_perf_paranoid();
    size_t length = strlen(event->reason);
    if (geteuid() != 0 && level > 1) {
        snprintf(event->reason + length, sizeof event->reason - length,
                 " (kernel.perf_event_paranoid is %d: sudo sysctl kernel.perf_event_paranoid=1)",
                 level);
    }
}

static void bp_papi_explain(bp_event_t *event, const bp_papi_api_t *papi, int error, int system) {
    const char *text = papi->strerror(error);
    switch (error) {
    case BP_PAPI_ECMP:
        bp_event_refuse(
            event, BP_COUNTER_ABSENT, 0,
            "not here, or a unit mask is missing: EVENT:MASK, as papi_native_avail has it");
        break;
    case BP_PAPI_ENOEVNT:
    case BP_PAPI_ENOTPRESET:
    case BP_PAPI_ENOCNTR:
    case BP_PAPI_ENOCMP:
    case BP_PAPI_ENOSUPP:
        bp_event_refuse(event, BP_COUNTER_ABSENT, 0, text);
        break;
    case BP_PAPI_ECNFLCT:
    case BP_PAPI_EMULPASS:
        bp_event_refuse(event, BP_COUNTER_REFUSED, EBUSY,
                        "no counter is left for it beside the others: it needs a pass of its own");
        return;
    case BP_PAPI_EPERM:
        bp_event_refuse(event, BP_COUNTER_REFUSED, EPERM, text);
        break;
    default:
        bp_event_refuse(event, BP_COUNTER_REFUSED, error == BP_PAPI_ESYS && system ? system : EIO,
                        text == NULL ? "PAPI does not say why" : text);
        break;
    }
    bp_papi_add_hint(event);
}

/// One event ///

static bool bp_papi_is_one_of(const char *text, const char *const *words) {
    while (*words != NULL && strcasestr(text, *words) == NULL) {
        words++;
    }
    return *words != NULL;
}

/* PAPI also accepts these names without `perf::`, and in lower case. */
static bool bp_papi_is_the_kernels(const char *text) {
    return strncmp(text, "perf::", 6) == 0 || strstr(text, "::") == NULL;
}

/* In PAPI's default domain, user mode, these always read 0. */
static bool bp_papi_in_kernel(const char *text) {
    static const char *const words[] = {"_SWITCHES", "-SWITCHES", "MIGRATIONS", "perf::CS", NULL};
    return bp_papi_is_the_kernels(text) && bp_papi_is_one_of(text, words);
}

/* PAPI reports no unit for the kernel's clocks. */
static bool bp_papi_is_time(const bp_papi_api_t *papi, const char *text, int code) {
    static const char *const words[] = {"TASK_CLOCK", "TASK-CLOCK", "CPU_CLOCK", "CPU-CLOCK", NULL};
    static bp_papi_event_info_t info;
    memset(&info, 0, sizeof info);
    return (bp_papi_is_the_kernels(text) && bp_papi_is_one_of(text, words)) ||
           (papi->get_event_info(code, &info) == BP_PAPI_OK && strcmp(info.units, "ns") == 0);
}

/* Find the code and the component of an event. Returns whether it may be added. */
static bool bp_papi_resolve(const bp_papi_api_t *papi, bp_event_t *event, int *code,
                            int *component) {
    int error = papi->event_name_to_code(event->text, code);
    if (error == BP_PAPI_OK) {
        *component = papi->get_event_component(*code);
        error = *component < 0 ? *component : BP_PAPI_OK;
    }
    if (error != BP_PAPI_OK) {
        bp_papi_explain(event, papi, error, 0);
        return false;
    }
    if (!bp_papi_counts_kernel() && bp_papi_in_kernel(event->text)) {
        bp_event_refuse(event, BP_COUNTER_REFUSED, EACCES,
                        "it happens in the kernel, which may not be counted");
        bp_papi_add_hint(event);
        return false;
    }
    event->is_time = bp_papi_is_time(papi, event->text, *code);
    return true;
}

/// Sets ///

/* Begin a set that also counts threads started later, if possible. Virtual machines without
 * hardware counters refuse that. */
static int bp_papi_begin(const bp_papi_api_t *papi, bp_papi_set_t *out, int component) {
    struct {
        int set;
        int inherit;
    } inherit = {.inherit = 1};
    *out = (bp_papi_set_t){.set = BP_PAPI_NULL, .component = component};
    int error = papi->create_eventset(&out->set);
    if (error == BP_PAPI_OK) {
        error = papi->assign_eventset_component(out->set, component);
        inherit.set = out->set;
        (void)papi->set_opt(BP_PAPI_OPTION_INHERIT, &inherit);
    }
    return error;
}

static void bp_papi_end(const bp_papi_api_t *papi, bp_papi_set_t *set) {
    (void)papi->cleanup_eventset(set->set);
    (void)papi->destroy_eventset(&set->set);
}

static bp_papi_set_t *bp_papi_set_of(bp_papi_sets_t *sets, int component) {
    for (uint8_t i = 0; i < sets->sets; i++) {
        if (sets->set[i].component == component) {
            return &sets->set[i];
        }
    }
    return NULL;
}

/* Add an event to the set of its component; begin that set if necessary. */
static void bp_papi_add(const bp_papi_api_t *papi, bp_papi_sets_t *sets, bp_event_t *event,
                        uint8_t slot) {
    int code = 0;
    int component = 0;
    bp_event_accept(event);
    if (!bp_papi_resolve(papi, event, &code, &component)) {
        return;
    }
    bp_papi_set_t *set = bp_papi_set_of(sets, component);
    int error = BP_PAPI_OK;
    if (set == NULL) {
        set = &sets->set[sets->sets];
        error = bp_papi_begin(papi, set, component);
        sets->sets++;
    }
    if (error == BP_PAPI_OK) {
        errno = 0;
        error = papi->add_event(set->set, code);
    }
    if (error == BP_PAPI_OK) {
        set->slot[set->count++] = slot;
    } else {
        bp_papi_explain(event, papi, error, errno);
    }
    if (set->count == 0) {
        bp_papi_end(papi, set);
        sets->sets--;
    }
}

static void bp_papi_no_library(bp_event_t *event, const char *reason) {
    bp_event_refuse(event, BP_COUNTER_REFUSED, ELIBACC, reason);
}

/* A software-defined event that no library has registered can be added and started, but reads -1.
 */
static void bp_papi_drop_unknown(const bp_papi_api_t *papi, bp_papi_set_t *set,
                                 bp_event_t *events) {
    long long values[BP_PAPI_SLOTS] = {0};
    (void)papi->read(set->set, values);
    for (uint8_t i = 0; i < set->count; i++) {
        if (values[i] < 0) {
            bp_event_refuse(&events[set->slot[i]], BP_COUNTER_ABSENT, 0,
                            "no library has registered it yet: call what does, then select it");
            set->slot[i] = BP_PAPI_OFF;
        }
    }
}

static void bp_papi_start(const bp_papi_api_t *papi, bp_papi_sets_t *sets, bp_event_t *events) {
    uint8_t kept = 0;
    for (uint8_t i = 0; i < sets->sets; i++) {
        bp_papi_set_t *set = &sets->set[i];
        errno = 0;
        int error = papi->start(set->set);
        if (error == BP_PAPI_OK) {
            bp_papi_drop_unknown(papi, set, events);
            sets->set[kept++] = *set;
            continue;
        }
        for (uint8_t j = 0; j < set->count; j++) {
            bp_papi_explain(&events[set->slot[j]], papi, error, errno);
        }
        bp_papi_end(papi, set);
    }
    sets->sets = kept;
}

void bp_papi_sets_open(bp_papi_sets_t *out, bp_event_t *events, uint8_t count) {
    const char *reason;
    const bp_papi_api_t *papi = bp_papi(&reason);
    out->sets = 0;
    for (uint8_t slot = 0; slot < count; slot++) {
        if (papi == NULL) {
            bp_papi_no_library(&events[slot], reason);
        } else {
            bp_papi_add(papi, out, &events[slot], slot);
        }
    }
    if (papi != NULL) {
        bp_papi_start(papi, out, events);
    }
}

void bp_papi_sets_close(bp_papi_sets_t *sets) {
    const char *reason;
    const bp_papi_api_t *papi = sets->sets == 0 ? NULL : bp_papi(&reason);
    for (uint8_t i = 0; papi != NULL && i < sets->sets; i++) {
        long long values[BP_PAPI_SLOTS];
        (void)papi->stop(sets->set[i].set, values);
        bp_papi_end(papi, &sets->set[i]);
    }
    sets->sets = 0;
}

void bp_papi_probe(bp_event_t *event) {
    const char *reason;
    bp_papi_sets_t alone = {.sets = 0};
    const bp_papi_api_t *papi = bp_papi(&reason);
    if (papi == NULL) {
        bp_papi_no_library(event, reason);
        return;
    }
    bp_papi_add(papi, &alone, event, 0);
    if (alone.sets != 0) {
        bp_papi_end(papi, &alone.set[0]);
    }
}
