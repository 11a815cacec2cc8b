/* SPDX-License-Identifier: Apache-2.0 */

#define _GNU_SOURCE /* asprintf */

#include "bp_perf_sysfs.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BP_SYSFS "/sys/bus/event_source/devices"

enum { BP_SYSFS_TEXT = 256, BP_SYSFS_PATH = 384 };

/* Read the first line of a file in sysfs. Refuses names that contain another slash. */
static bool bp_sysfs_line(char *out, const char *pmu, const char *folder, const char *file) {
    char path[BP_SYSFS_PATH];
    int length = snprintf(path, sizeof path, BP_SYSFS "/%s/%s%s", pmu, folder, file);
    if (length < 0 || (size_t)length >= sizeof path || strchr(pmu, '/') || strchr(file, '/')) {
        return false;
    }
    FILE *stream = fopen(path, "re");
    if (stream == NULL) {
        return false;
    }
    bool read = fgets(out, BP_SYSFS_TEXT, stream) != NULL;
    fclose(stream);
    if (read) {
        out[strcspn(out, "\n")] = 0;
    }
    return read;
}

/// Terms: `TERM=VALUE`; the format of the PMU says which bits are set, and in which word ///

/* Put the lowest bits of `value` at the positions in `bits`: `0-7,21`, as after the colon of a
 * format. Returns whether all bits of the value had a place. */
static bool bp_sysfs_scatter(uint64_t *word, const char *bits, uint64_t value) {
    while (*bits != 0) {
        char *end;
        unsigned long low = strtoul(bits, &end, 10);
        unsigned long high = *end == '-' ? strtoul(end + 1, &end, 10) : low;
        if (low > high || high > 63) {
            return false;
        }
        uint64_t mask = UINT64_MAX >> (63 - (high - low));
        *word |= (value & mask) << low;
        value = high - low == 63 ? 0 : value >> (high - low + 1);
        bits = *end == ',' ? end + 1 : end;
        if (*end != 0 && *end != ',') {
            return false;
        }
    }
    return value == 0;
}

static uint64_t *bp_sysfs_word(bp_perf_code_t *code, const char *name, size_t length) {
    static const char *const words[] = {"config", "config1", "config2"};
    uint64_t *const places[] = {&code->config, &code->config1, &code->config2};
    for (size_t i = 0; i < 3; i++) {
        if (strlen(words[i]) == length && memcmp(words[i], name, length) == 0) {
            return places[i];
        }
    }
    return NULL;
}

/* Parse one term with a value. */
static const char *bp_sysfs_term(bp_perf_code_t *out, const char *pmu, const char *term,
                                 const char *text) {
    char format[BP_SYSFS_TEXT];
    char *end;
    uint64_t value = strtoull(text, &end, 0);
    if (*text == 0 || *text == '-' || *end != 0) {
        return "a term's value is no number";
    }
    uint64_t *word = bp_sysfs_word(out, term, strlen(term));
    if (word != NULL) {
        *word |= value;
        return NULL;
    }
    if (!bp_sysfs_line(format, pmu, "format/", term)) {
        return "this PMU has no such term";
    }
    size_t length = strcspn(format, ":");
    word = bp_sysfs_word(out, format, length);
    if (word == NULL || format[length] == 0) {
        return "where a term goes is in a form that this agent does not know";
    }
    return bp_sysfs_scatter(word, format + length + 1, value) ? NULL
                                                              : "a term's value is too large";
}

/* Parse terms. `named`: a term without a value may be the name of an event. */
static const char *bp_sysfs_terms(bp_perf_code_t *out, const char *pmu, const char *terms,
                                  bool named) {
    char copy[BP_SYSFS_TEXT];
    char event[BP_SYSFS_TEXT];
    char *left = NULL;
    if (strlen(terms) >= sizeof copy) {
        return "the event's text is too long";
    }
    strcpy(copy, terms);
    for (char *term = strtok_r(copy, ",", &left); term; term = strtok_r(NULL, ",", &left)) {
        char *value = strchr(term, '=');
        const char *wrong;
        if (value != NULL) {
            *value = 0;
            wrong = bp_sysfs_term(out, pmu, term, value + 1);
        } else if (named && bp_sysfs_line(event, pmu, "events/", term)) {
            wrong = bp_sysfs_terms(out, pmu, event, false);
        } else {
            wrong = bp_sysfs_term(out, pmu, term, "1"); /* a flag */
            wrong = wrong != NULL && named ? "this PMU has no such event" : wrong;
        }
        if (wrong != NULL) {
            return wrong;
        }
    }
    return NULL;
}

const char *bp_perf_sysfs_find(bp_perf_code_t *out, const char *pmu, const char *terms) {
    char type[BP_SYSFS_TEXT];
    *out = (bp_perf_code_t){0};
    if (*pmu == 0 || *pmu == '.' || !bp_sysfs_line(type, pmu, "", "type")) {
        return "there is no such PMU in " BP_SYSFS;
    }
    out->type = (uint32_t)strtoul(type, NULL, 10);
    return *terms == 0 ? "no term stands between the slashes"
                       : bp_sysfs_terms(out, pmu, terms, true);
}

/// All named events ///

typedef struct {
    char **names; /* each `PMU/NAME/`, from malloc */
    unsigned count;
    unsigned room;
} bp_sysfs_list_t;

static bp_sysfs_list_t bp_sysfs_events;

static void bp_sysfs_forget(bp_sysfs_list_t *list) {
    for (unsigned i = 0; i < list->count; i++) {
        free(list->names[i]);
    }
    free(list->names);
    *list = (bp_sysfs_list_t){0};
}

/* An agent may be a library that is unloaded: it must free what it holds. */
__attribute__((destructor)) static void bp_sysfs_end(void) {
    bp_sysfs_forget(&bp_sysfs_events);
}

static void bp_sysfs_add(bp_sysfs_list_t *list, const char *pmu, const char *event) {
    if (list->count == list->room) {
        unsigned room = list->room == 0 ? 64 : 2 * list->room;
        char **more = realloc(list->names, room * sizeof *more);
        if (more == NULL) {
            return;
        }
        list->names = more;
        list->room = room;
    }
    if (asprintf(&list->names[list->count], "%s/%s/", pmu, event) >= 0) {
        list->count++;
    }
}

/* Exclude files that only describe how to read an event: NAME.unit, NAME.scale, NAME.snapshot. */
static int bp_sysfs_is_event(const struct dirent *entry) {
    return strchr(entry->d_name, '.') == NULL;
}

static void bp_sysfs_add_pmu(bp_sysfs_list_t *list, const char *pmu) {
    char path[BP_SYSFS_PATH];
    struct dirent **events;
    snprintf(path, sizeof path, BP_SYSFS "/%.200s/events", pmu);
    int count = scandir(path, &events, bp_sysfs_is_event, alphasort);
    for (int i = 0; i < count; i++) {
        bp_sysfs_add(list, pmu, events[i]->d_name);
        free(events[i]);
    }
    if (count >= 0) {
        free(events);
    }
}

static void bp_sysfs_list(bp_sysfs_list_t *list) {
    struct dirent **pmus;
    bp_sysfs_forget(list);
    int count = scandir(BP_SYSFS, &pmus, bp_sysfs_is_event, alphasort);
    for (int i = 0; i < count; i++) {
        bp_sysfs_add_pmu(list, pmus[i]->d_name);
        free(pmus[i]);
    }
    if (count >= 0) {
        free(pmus);
    }
}

bool bp_perf_sysfs_at(char *name, size_t size, unsigned index) {
    if (index == 0) {
        bp_sysfs_list(&bp_sysfs_events);
    }
    if (index >= bp_sysfs_events.count) {
        return false;
    }
    snprintf(name, size, "%s", bp_sysfs_events.names[index]);
    return true;
}

bool bp_perf_sysfs_alias(bp_perf_code_t *out, const char *name) {
    bp_sysfs_list_t list = {0};
    bool found = false;
    bp_sysfs_list(&list);
    for (unsigned i = 0; i < list.count && !found; i++) {
        char *slash = strchr(list.names[i], '/');
        char *event = slash + 1;
        event[strlen(event) - 1] = 0;
        *slash = 0;
        found = strcmp(event, name) == 0 && bp_perf_sysfs_find(out, list.names[i], name) == NULL;
    }
    bp_sysfs_forget(&list);
    return found;
}
