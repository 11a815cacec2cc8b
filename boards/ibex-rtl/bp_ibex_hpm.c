/* SPDX-License-Identifier: Apache-2.0 */
/* Ibex's ten event counters, mhpmcounter3 to 12: 40 bits each, with fixed events (Ibex reference
 * guide, "Performance Counters"). They count from reset on. According to the guide a misaligned
 * load or store counts as two; the core counts it as one. */

#include "boardprof/bp.h"
#include "bp_arch.h"
#include "ibex_wire.h"

#define BP_HPM_BITS 40
#define BP_MCOUNTINHIBIT_HPM 0x1ff8u /* bits 3 to 12 */

BP_ARCH_COUNTER(mhpmcounter3)
BP_ARCH_COUNTER(mhpmcounter4)
BP_ARCH_COUNTER(mhpmcounter5)
BP_ARCH_COUNTER(mhpmcounter6)
BP_ARCH_COUNTER(mhpmcounter7)
BP_ARCH_COUNTER(mhpmcounter8)
BP_ARCH_COUNTER(mhpmcounter9)
BP_ARCH_COUNTER(mhpmcounter10)
BP_ARCH_COUNTER(mhpmcounter11)
BP_ARCH_COUNTER(mhpmcounter12)

typedef struct {
    const char *name;
    const char *source;
} bp_event_t;

static const bp_event_t bp_events[] = {
    {"data-waits", "mhpmcounter3, NumCyclesLSU"},
    {"instruction-waits", "mhpmcounter4, NumCyclesIF"},
    {"loads", "mhpmcounter5, NumLoads"},
    {"stores", "mhpmcounter6, NumStores"},
    {"jumps", "mhpmcounter7, NumJumps"},
    {"branches", "mhpmcounter8, NumBranches"},
    {"branches-taken", "mhpmcounter9, NumBranchesTaken"},
    {"compressed-instructions", "mhpmcounter10, NumInstrRetC"},
    {"multiply-waits", "mhpmcounter11, NumCyclesMulWait"},
    {"divide-waits", "mhpmcounter12, NumCyclesDivWait"},
};

enum { BP_EVENTS = sizeof bp_events / sizeof bp_events[0] };

static uint32_t bp_there; /* bit i: event i was seen to be counted */

static void bp_ibex_hpm_start(void *state) {
    bp_ibex_hpm_t *s = state;
    s->data_waits_start = bp_arch_mhpmcounter3();
    s->instruction_waits_start = bp_arch_mhpmcounter4();
    s->loads_start = bp_arch_mhpmcounter5();
    s->stores_start = bp_arch_mhpmcounter6();
    s->jumps_start = bp_arch_mhpmcounter7();
    s->branches_start = bp_arch_mhpmcounter8();
    s->branches_taken_start = bp_arch_mhpmcounter9();
    s->compressed_instructions_start = bp_arch_mhpmcounter10();
    s->multiply_waits_start = bp_arch_mhpmcounter11();
    s->divide_waits_start = bp_arch_mhpmcounter12();
}

static void bp_ibex_hpm_stop(void *state) {
    bp_ibex_hpm_t *s = state;
    s->divide_waits_stop = bp_arch_mhpmcounter12();
    s->multiply_waits_stop = bp_arch_mhpmcounter11();
    s->compressed_instructions_stop = bp_arch_mhpmcounter10();
    s->branches_taken_stop = bp_arch_mhpmcounter9();
    s->branches_stop = bp_arch_mhpmcounter8();
    s->jumps_stop = bp_arch_mhpmcounter7();
    s->stores_stop = bp_arch_mhpmcounter6();
    s->loads_stop = bp_arch_mhpmcounter5();
    s->instruction_waits_stop = bp_arch_mhpmcounter4();
    s->data_waits_stop = bp_arch_mhpmcounter3();
}

/* One of each: a load, a store, a product, a quotient, a taken branch, a jump. */
__attribute__((noinline)) static void bp_exercise(volatile uint32_t *number) {
    for (uint32_t i = 0; i < 2; i++) {
        *number = *number * *number;
        *number = 1000000u / *number;
    }
}

/* On a core without these counters, or with other ones, the state is all zeros or nonsense. So each
 * counter must advance over work of its kind. */
static void bp_ibex_hpm_init(void) {
    bp_ibex_hpm_t probe;
    volatile uint32_t number = 5;
    (void)bp_arch_inhibit_clear(BP_MCOUNTINHIBIT_HPM);
    bp_ibex_hpm_start(&probe);
    bp_exercise(&number);
    bp_ibex_hpm_stop(&probe);
    const bool advanced[BP_EVENTS] = {
        probe.data_waits_stop != probe.data_waits_start,
        probe.instruction_waits_stop != probe.instruction_waits_start,
        probe.loads_stop != probe.loads_start,
        probe.stores_stop != probe.stores_start,
        probe.jumps_stop != probe.jumps_start,
        probe.branches_stop != probe.branches_start,
        probe.branches_taken_stop != probe.branches_taken_start,
        probe.compressed_instructions_stop != probe.compressed_instructions_start,
        probe.multiply_waits_stop != probe.multiply_waits_start,
        probe.divide_waits_stop != probe.divide_waits_start,
    };
    bp_there = 0;
    for (uint32_t i = 0; i < BP_EVENTS; i++) {
        bp_there |= (uint32_t)advanced[i] << i;
    }
}

static bool bp_ibex_hpm_intact(const void *state) {
    (void)state;
    return bp_arch_inhibit_clear(BP_MCOUNTINHIBIT_HPM);
}

static void bp_ibex_hpm_encode(uint8_t *out, const void *state) {
    bp_ibex_hpm_put(out, state);
}

static void bp_ibex_hpm_counter(bp_counter_t *out, uint8_t index) {
    out->name = bp_events[index].name;
    out->source = bp_events[index].source;
    out->bits = BP_HPM_BITS;
    out->status = (bp_there >> index & 1u) != 0 ? BP_COUNTER_OK : BP_COUNTER_STUCK;
}

extern const bp_collector_t bp_collector_ibex_hpm;
const bp_collector_t bp_collector_ibex_hpm BP_ROM = {
    .name = "ibex_hpm",
    .init = bp_ibex_hpm_init,
    .start = bp_ibex_hpm_start,
    .stop = bp_ibex_hpm_stop,
    .intact = BP_CFG_GUARD ? bp_ibex_hpm_intact : NULL,
    .encode = bp_ibex_hpm_encode,
    .counter = bp_ibex_hpm_counter,
#if BP_CFG_INTERRUPTS > 1
    .skip = bp_ibex_hpm_skip,
#endif
    .layout_crc = BP_IBEX_HPM_CRC,
    .schema_id = BP_IBEX_HPM_SCHEMA,
    .body_length = BP_IBEX_HPM_LEN,
    .version = BP_IBEX_HPM_VERSION,
    .state_bytes = sizeof(bp_ibex_hpm_t),
    .counters = BP_EVENTS,
};
