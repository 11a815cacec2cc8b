/* SPDX-License-Identifier: Apache-2.0 */
/* The dot-product engine's own counters (engine.h), 64 bits each. */

#include "boardprof/bp.h"
#include "bp_arch.h"
#include "engine.h"
#include "ibex_wire.h"

static const char *const bp_engine_names[] = {
    "jobs", "busy", "read-stalls", "write-stalls", "macs",
};
static const char *const bp_engine_sources[] = {
    "engine JOBS", "engine BUSY", "engine READ_STALLS", "engine WRITE_STALLS", "engine MACS",
};

enum { BP_ENGINE_COUNTERS = sizeof bp_engine_names / sizeof bp_engine_names[0] };

static uint8_t bp_engine_status[BP_ENGINE_COUNTERS];

static void bp_ibex_accelerator_start(void *state) {
    bp_ibex_accelerator_t *s = state;
    s->jobs_start = bp_arch_counter_at(ENGINE_JOBS);
    s->busy_start = bp_arch_counter_at(ENGINE_BUSY);
    s->read_stalls_start = bp_arch_counter_at(ENGINE_READ_STALLS);
    s->write_stalls_start = bp_arch_counter_at(ENGINE_WRITE_STALLS);
    s->macs_start = bp_arch_counter_at(ENGINE_MACS);
}

static void bp_ibex_accelerator_stop(void *state) {
    bp_ibex_accelerator_t *s = state;
    s->macs_stop = bp_arch_counter_at(ENGINE_MACS);
    s->write_stalls_stop = bp_arch_counter_at(ENGINE_WRITE_STALLS);
    s->read_stalls_stop = bp_arch_counter_at(ENGINE_READ_STALLS);
    s->busy_stop = bp_arch_counter_at(ENGINE_BUSY);
    s->jobs_stop = bp_arch_counter_at(ENGINE_JOBS);
}

/* Run jobs while the core reads RAM, so that they collide, at reads and at writes. The intervals
 * between the core's reads vary, and so does the length of rows; otherwise the two might never
 * meet. */
static void bp_engine_exercise(void) {
    enum { ROWS = 32, LONGEST = 8 };
    static uint32_t words[ROWS];
    ENGINE_VECTOR = (uint32_t)words;
    ENGINE_MATRIX = (uint32_t)words;
    ENGINE_OUT = (uint32_t)words;
    ENGINE_ROWS = ROWS;
    ENGINE_STRIDE = 0;
    for (uint32_t length = 1; length <= LONGEST; length++) {
        ENGINE_LENGTH = 4 * length;
        ENGINE_CONTROL = 1;
        for (uint32_t round = 0; (ENGINE_STATUS & ENGINE_STATUS_BUSY) != 0; round++) {
            for (uint32_t i = round % 4; i != 0; i--) {
                (void)*(volatile uint32_t *)words;
            }
        }
    }
}

static void bp_ibex_accelerator_init(void) {
    bp_ibex_accelerator_t probe;
    bp_ibex_accelerator_start(&probe);
    bp_engine_exercise();
    bp_ibex_accelerator_stop(&probe);
    const bool advanced[BP_ENGINE_COUNTERS] = {
        probe.jobs_stop != probe.jobs_start,
        probe.busy_stop != probe.busy_start,
        probe.read_stalls_stop != probe.read_stalls_start,
        probe.write_stalls_stop != probe.write_stalls_start,
        probe.macs_stop != probe.macs_start,
    };
    for (uint8_t i = 0; i < BP_ENGINE_COUNTERS; i++) {
        bp_engine_status[i] = advanced[i] ? BP_COUNTER_OK : BP_COUNTER_STUCK;
    }
}

static void bp_ibex_accelerator_encode(uint8_t *out, const void *state) {
    bp_ibex_accelerator_put(out, state);
}

static void bp_ibex_accelerator_counter(bp_counter_t *out, uint8_t index) {
    out->name = bp_engine_names[index];
    out->source = bp_engine_sources[index];
    out->bits = 64;
    out->status = bp_engine_status[index];
    out->counts_in_sleep = true;
}

extern const bp_collector_t bp_collector_ibex_accelerator;
const bp_collector_t bp_collector_ibex_accelerator BP_ROM = {
    .name = "ibex_accelerator",
    .init = bp_ibex_accelerator_init,
    .start = bp_ibex_accelerator_start,
    .stop = bp_ibex_accelerator_stop,
    .encode = bp_ibex_accelerator_encode,
    .counter = bp_ibex_accelerator_counter,
#if BP_CFG_INTERRUPTS > 1
    .skip = bp_ibex_accelerator_skip,
#endif
    .layout_crc = BP_IBEX_ACCELERATOR_CRC,
    .schema_id = BP_IBEX_ACCELERATOR_SCHEMA,
    .body_length = BP_IBEX_ACCELERATOR_LEN,
    .version = BP_IBEX_ACCELERATOR_VERSION,
    .state_bytes = sizeof(bp_ibex_accelerator_t),
    .counters = BP_ENGINE_COUNTERS,
};
