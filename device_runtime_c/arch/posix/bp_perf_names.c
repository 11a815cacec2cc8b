/* SPDX-License-Identifier: Apache-2.0 */

#include "bp_perf_names.h"

#include <ctype.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>

#include "bp_posix.h"

/// Hardware and software ///

typedef struct {
    const char *name;
    const char *alias; /* perf's other name, or NULL */
    const char *description;
    uint32_t type;
    uint32_t config;
    bool is_time;
    bool in_kernel;
} bp_perf_name_t;

#define BP_HARDWARE(name, alias, config, description) \
    {name, alias, description, PERF_TYPE_HARDWARE, PERF_COUNT_HW_##config, false, false}
#define BP_SOFTWARE(name, alias, config, description) \
    {name, alias, description, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_##config, false, false}
#define BP_CLOCK(name, config, description) \
    {name, NULL, description, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_##config, true, false}
#define BP_KERNEL(name, alias, config, description) \
    {name, alias, description, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_##config, false, true}

static const bp_perf_name_t bp_perf_names[] = {
    BP_HARDWARE("cycles", "cpu-cycles", CPU_CYCLES, "CPU cycles, at the clock's present rate"),
    BP_HARDWARE("instructions", NULL, INSTRUCTIONS, "retired instructions"),
    BP_HARDWARE("branches", "branch-instructions", BRANCH_INSTRUCTIONS, "retired branches"),
    BP_HARDWARE("branch-misses", NULL, BRANCH_MISSES, "branches predicted wrong"),
    BP_HARDWARE("cache-references", NULL, CACHE_REFERENCES, "accesses to the last-level cache"),
    BP_HARDWARE("cache-misses", NULL, CACHE_MISSES, "accesses that the last-level cache missed"),
    BP_HARDWARE("bus-cycles", NULL, BUS_CYCLES, "cycles of the bus"),
    BP_HARDWARE("ref-cycles", NULL, REF_CPU_CYCLES, "cycles at the CPU's nominal rate"),
    BP_HARDWARE("stalled-cycles-frontend", "idle-cycles-frontend", STALLED_CYCLES_FRONTEND,
                "cycles without an instruction to issue"),
    BP_HARDWARE("stalled-cycles-backend", "idle-cycles-backend", STALLED_CYCLES_BACKEND,
                "cycles in which execution waited"),
    BP_CLOCK("task-clock", TASK_CLOCK, "ns in which the thread ran"),
    BP_CLOCK("cpu-clock", CPU_CLOCK, "ns in which the thread ran, by the CPU's own clock"),
    BP_SOFTWARE("page-faults", "faults", PAGE_FAULTS, "page faults"),
    BP_SOFTWARE("minor-faults", NULL, PAGE_FAULTS_MIN, "page faults without reading a disk"),
    BP_SOFTWARE("major-faults", NULL, PAGE_FAULTS_MAJ, "page faults that read a disk"),
    BP_KERNEL("context-switches", "cs", CONTEXT_SWITCHES, "switches to another thread"),
    BP_KERNEL("cpu-migrations", "migrations", CPU_MIGRATIONS, "moves to another CPU"),
    BP_SOFTWARE("alignment-faults", NULL, ALIGNMENT_FAULTS, "misaligned accesses that trapped"),
    BP_SOFTWARE("emulation-faults", NULL, EMULATION_FAULTS, "instructions that were emulated"),
};

enum { BP_PERF_NAMES = sizeof bp_perf_names / sizeof bp_perf_names[0] };

static bool bp_perf_is(const bp_perf_name_t *known, const char *name) {
    return strcmp(known->name, name) == 0 ||
           (known->alias != NULL && strcmp(known->alias, name) == 0);
}

/// Caches: perf_event_open(2), config = cache | operation << 8 | result << 16 ///

static const char *const bp_caches[] = {"L1-dcache", "L1-icache", "LLC", "dTLB",
                                        "iTLB",      "branch",    "node"};
static const char *const bp_cache_words[][2] = {
    {"loads", "load-misses"}, {"stores", "store-misses"}, {"prefetches", "prefetch-misses"}};

enum {
    BP_CACHES = sizeof bp_caches / sizeof bp_caches[0],
    BP_CACHE_EVENTS = BP_CACHES * 6,
};

_Static_assert(PERF_COUNT_HW_CACHE_NODE == BP_CACHES - 1, "the order is the kernel's");

static void bp_cache_name(char *out, size_t size, unsigned index) {
    const char *word = bp_cache_words[index % 6 / 2][index % 2];
    snprintf(out, size, "%s-%s", bp_caches[index / 6], word);
}

static bool bp_cache_find(bp_perf_code_t *out, const char *name) {
    char known[48];
    for (unsigned i = 0; i < BP_CACHE_EVENTS; i++) {
        bp_cache_name(known, sizeof known, i);
        if (strcmp(known, name) == 0) {
            *out = (bp_perf_code_t){.type = PERF_TYPE_HW_CACHE,
                                    .config = i / 6 | (i % 6 / 2) << 8 | (i % 2) << 16};
            return true;
        }
    }
    return false;
}

/// PAPI's names, for an agent that cannot load libpapi ///

#if BP_POSIX_STATIC

typedef struct {
    const char *papi;
    const char *perf;
} bp_preset_t;

static const bp_preset_t bp_presets[] = {
    {"PAPI_TOT_INS", "instructions"}, {"PAPI_TOT_CYC", "cycles"},
    {"PAPI_REF_CYC", "ref-cycles"},   {"PAPI_BR_INS", "branches"},
    {"PAPI_BR_MSP", "branch-misses"}, {"PAPI_L1_ICM", "L1-icache-load-misses"},
};

enum { BP_PRESETS = sizeof bp_presets / sizeof bp_presets[0] };

static void bp_preset_at(char *name, char *description, size_t size, unsigned index) {
    snprintf(name, size, "%s", bp_presets[index].papi);
    snprintf(description, size, "perf's %s: this agent has no libpapi", bp_presets[index].perf);
}

/* PAPI also has the kernel's own events, as `perf::INSTRUCTIONS`. */
bool bp_perf_name_of_papi(char *name, size_t size) {
    static const char kernels[] = "perf::";
    char plain[48] = "";
    size_t length = strcspn(name, ":");
    for (unsigned i = 0; i < BP_PRESETS; i++) {
        if (strlen(bp_presets[i].papi) == length &&
            strncmp(bp_presets[i].papi, name, length) == 0) {
            char modifiers[8];
            snprintf(modifiers, sizeof modifiers, "%s", name + length);
            snprintf(name, size, "%s%s", bp_presets[i].perf, modifiers);
            return true;
        }
    }
    if (strncmp(name, kernels, sizeof kernels - 1) != 0) {
        return false;
    }
    snprintf(plain, sizeof plain, "%s", name + sizeof kernels - 1);
    for (char *letter = plain; *letter != 0; letter++) {
        *letter = (char)tolower((unsigned char)*letter);
    }
    snprintf(name, size, "%s", plain);
    return true;
}

#else

enum { BP_PRESETS = 0 };

static void bp_preset_at(char *name, char *description, size_t size, unsigned index) {
    (void)name, (void)description, (void)size, (void)index;
}

bool bp_perf_name_of_papi(char *name, size_t size) {
    (void)name, (void)size;
    return false;
}

#endif

/// All generic events ///

bool bp_perf_name_find(bp_perf_code_t *out, const char *name) {
    for (unsigned i = 0; i < BP_PERF_NAMES; i++) {
        const bp_perf_name_t *known = &bp_perf_names[i];
        if (bp_perf_is(known, name)) {
            *out = (bp_perf_code_t){.type = known->type,
                                    .config = known->config,
                                    .is_time = known->is_time,
                                    .in_kernel = known->in_kernel};
            return true;
        }
    }
    return bp_cache_find(out, name);
}

unsigned bp_perf_name_count(void) {
    return BP_PERF_NAMES + BP_CACHE_EVENTS + BP_PRESETS;
}

void bp_perf_name_at(char *name, char *description, size_t size, unsigned index) {
    if (index < BP_PERF_NAMES) {
        snprintf(name, size, "%s", bp_perf_names[index].name);
        snprintf(description, size, "%s", bp_perf_names[index].description);
        return;
    }
    index -= BP_PERF_NAMES;
    if (index >= BP_CACHE_EVENTS) {
        bp_preset_at(name, description, size, index - BP_CACHE_EVENTS);
        return;
    }
    bp_cache_name(name, size, index);
    snprintf(description, size, "%s: %s", bp_caches[index / 6],
             bp_cache_words[index % 6 / 2][index % 2]);
}
