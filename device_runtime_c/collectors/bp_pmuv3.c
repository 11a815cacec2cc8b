/* SPDX-License-Identifier: Apache-2.0 */
/* Arm's PMUv3: event counters 2 to 5 as four slots; 0 and 1 count instructions (bp_arch.h).
 *
 * Arm Architecture Reference Manual for A-profile (DDI 0487), "The Performance Monitors Extension",
 * and PMEVTYPER<n>_EL0, PMEVCNTR<n>_EL0, PMCNTENSET_EL0, PMCNTENCLR_EL0, PMCEID0_EL0 and
 * PMCEID1_EL0 in "AArch64 System Register Descriptions". Tested only on QEMU. */

#include "boardprof/bp.h"
#include "bp_arch.h"

enum { BP_SLOTS = 4, BP_FIRST = 2, BP_EVENT_MAX = 0xffff, BP_ARCHITECTED = 0x40 };

static const char bp_pmuv3_name[] BP_ROM = "pmuv3";

/// The registers ///

typedef struct {
    const char *name;   /* in BP_ROM */
    const char *source; /* in BP_ROM */
    /* Write the event, clear the counter, and return what the event register then holds. */
    uint32_t (*program)(uint32_t event);
} bp_pmu_t;

#define BP_PMU(slot, number)                                    \
    static uint32_t bp_program_##slot(uint32_t event) {         \
        BP_ARCH_WRITE(pmevtyper##number##_el0, event);          \
        BP_ARCH_WRITE(pmevcntr##number##_el0, 0);               \
        return (uint32_t)BP_ARCH_READ(pmevtyper##number##_el0); \
    }                                                           \
    static const char bp_slot_##slot[] BP_ROM = "slot" #slot;   \
    static const char bp_source_##slot[] BP_ROM = "PMEVCNTR" #number "_EL0";

BP_PMU(0, 2)
BP_PMU(1, 3)
BP_PMU(2, 4)
BP_PMU(3, 5)

#define BP_SLOT(slot) {bp_slot_##slot, bp_source_##slot, bp_program_##slot}

static const bp_pmu_t bp_pmu[BP_SLOTS] BP_ROM = {BP_SLOT(0), BP_SLOT(1), BP_SLOT(2), BP_SLOT(3)};

/// Programming ///

static uint_fast8_t bp_there;       /* slots that the core has */
static uint_fast8_t bp_used;        /* slots that were selected, from the first on */
static uint8_t bp_status[BP_SLOTS]; /* enum bp_counter_status */

static void bp_all_off(void) {
    if (bp_there != 0) {
        BP_ARCH_WRITE(pmcntenclr_el0, ((1u << bp_there) - 1) << BP_FIRST);
    }
    for (uint_fast8_t i = 0; i < BP_SLOTS; i++) {
        bp_status[i] = BP_COUNTER_ABSENT;
    }
    bp_used = 0;
}

static void bp_pmuv3_init(void) {
    int slots = bp_arch_pmu_counters() - BP_FIRST;
    bp_there = slots < 0 ? 0 : slots > BP_SLOTS ? BP_SLOTS : (uint_fast8_t)slots;
    (void)bp_arch_cycles_init(); /* this starts all counters that are on */
    bp_all_off();
}

#if BP_CFG_OPEN_WINDOWS

/* For the events that the architecture defines, PMCEID0 and PMCEID1 show which ones the core has.
 * The register would accept the code of a missing one, and nothing would be counted. CHAIN counts
 * the wraps of the previous counter, which belongs to another slot or to none. */
static bool bp_is_counted(uint32_t event) {
    if (event == BP_ARCH_EVENT_CHAIN) {
        return false;
    }
    if (event >= BP_ARCHITECTED) {
        return true;
    }
    uint64_t known = event < 32 ? BP_ARCH_READ(pmceid0_el0) : BP_ARCH_READ(pmceid1_el0);
    return (known >> (event & 31) & 1) != 0;
}

static uint8_t bp_program(const uintptr_t *events, uint_fast8_t slot) {
    uint32_t event = (uint32_t)events[slot];
    if (slot >= bp_there) {
        return BP_COUNTER_ABSENT;
    }
    bp_used = slot + 1;
    if (!bp_is_counted(event) || bp_pmu[slot].program(event) != event) {
        return BP_COUNTER_ABSENT;
    }
    BP_ARCH_WRITE(pmcntenset_el0, 1u << (slot + BP_FIRST));
    return BP_COUNTER_OK;
}

static int bp_pmuv3_select(bp_call_t *call) {
    static const bp_select_t select = {
        .largest = BP_EVENT_MAX,
        .all_off = bp_all_off,
        .program = bp_program,
        .status = bp_status,
        .slots = BP_SLOTS,
    };
    return bp_select_slots(call, &select);
}

#endif

/// Windows ///

/* Slots that are not selected are not read: those that the core lacks would trap. */
static void bp_pmuv3_start(void *state) {
    bp_pmuv3_t *s = state;
    if (bp_used > 3) {
        s->slot3_start = (uint32_t)BP_ARCH_READ(pmevcntr5_el0);
    }
    if (bp_used > 2) {
        s->slot2_start = (uint32_t)BP_ARCH_READ(pmevcntr4_el0);
    }
    if (bp_used > 1) {
        s->slot1_start = (uint32_t)BP_ARCH_READ(pmevcntr3_el0);
    }
    if (bp_used > 0) {
        s->slot0_start = (uint32_t)BP_ARCH_READ(pmevcntr2_el0);
    }
}

static void bp_pmuv3_stop(void *state) {
    bp_pmuv3_t *s = state;
    if (bp_used > 0) {
        s->slot0_stop = (uint32_t)BP_ARCH_READ(pmevcntr2_el0);
    }
    if (bp_used > 1) {
        s->slot1_stop = (uint32_t)BP_ARCH_READ(pmevcntr3_el0);
    }
    if (bp_used > 2) {
        s->slot2_stop = (uint32_t)BP_ARCH_READ(pmevcntr4_el0);
    }
    if (bp_used > 3) {
        s->slot3_stop = (uint32_t)BP_ARCH_READ(pmevcntr5_el0);
    }
}

/* Whether all counters are still on; if not, turn them on again. */
static bool bp_pmuv3_intact(const void *state) {
    (void)state; /* with 32 bits, they may have wrapped */
    uint64_t on = 0;
    for (uint_fast8_t i = 0; i < bp_used; i++) {
        on |= bp_status[i] == BP_COUNTER_OK ? 1u << (i + BP_FIRST) : 0;
    }
    bool intact = (BP_ARCH_READ(pmcntenset_el0) & on) == on && bp_arch_cycles_intact();
    BP_ARCH_WRITE(pmcntenset_el0, on);
    return intact;
}

/* Slots that were not read are sent as 0; the host knows which slots it selected. */
static void bp_pmuv3_encode(uint8_t *out, const void *state) {
    bp_pmuv3_t s = *(const bp_pmuv3_t *)state;
    if (bp_used < 4) {
        s.slot3_start = s.slot3_stop = 0;
    }
    if (bp_used < 3) {
        s.slot2_start = s.slot2_stop = 0;
    }
    if (bp_used < 2) {
        s.slot1_start = s.slot1_stop = 0;
    }
    if (bp_used < 1) {
        s.slot0_start = s.slot0_stop = 0;
    }
    bp_pmuv3_put(out, &s);
}

static void bp_pmuv3_counter(bp_counter_t *out, uint8_t index) {
    out->name = bp_pmu[index].name;
    out->source = bp_pmu[index].source;
    out->bits = 32;
    out->status = bp_status[index];
}

const bp_collector_t bp_collector_pmuv3 BP_ROM = {
    .name = bp_pmuv3_name,
    .init = bp_pmuv3_init,
    .start = bp_pmuv3_start,
    .stop = bp_pmuv3_stop,
    .intact = BP_CFG_GUARD ? bp_pmuv3_intact : NULL,
    .encode = bp_pmuv3_encode,
    .counter = bp_pmuv3_counter,
#if BP_CFG_OPEN_WINDOWS
    .select = bp_pmuv3_select,
#endif
#if BP_CFG_INTERRUPTS > 1
    .skip = bp_pmuv3_skip,
#endif
    .layout_crc = BP_PMUV3_CRC,
    .schema_id = BP_PMUV3_SCHEMA,
    .body_length = BP_PMUV3_LEN,
    .version = BP_PMUV3_VERSION,
    .state_bytes = sizeof(bp_pmuv3_t),
    .counters = BP_SLOTS,
};
