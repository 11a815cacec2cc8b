/* SPDX-License-Identifier: Apache-2.0 */
/* Cycles and retired instructions, up to 64 bits each as the core allows: RISC-V mcycle and
 * minstret, AArch64 PMCCNTR_EL0 and two event counters. */

#include "boardprof/bp.h"
#include "bp_arch.h"

static const char bp_cycles_name[] BP_ROM = "cycles"; /* also the collector's name */
static const char bp_instructions_name[] BP_ROM = "instructions";
static const char bp_cycles_source[] BP_ROM = BP_ARCH_CYCLES_SOURCE;
static const char bp_instructions_source[] BP_ROM = BP_ARCH_INSTRUCTIONS_SOURCE;

static uint8_t bp_cycles_status;
static uint8_t bp_instructions_status;
static uint8_t bp_instructions_bits = 64;

static void bp_cycles_instret_start(void *state) {
    bp_cycles_instret_t *s = state;
    s->cycles_start = bp_arch_cycles();
    s->instructions_start = bp_arch_instructions();
}

static void bp_cycles_instret_stop(void *state) {
    bp_cycles_instret_t *s = state;
    s->instructions_stop = bp_arch_instructions();
    s->cycles_stop = bp_arch_cycles();
}

/* A counter counts as present once it was seen to advance: on some cores the registers read 0. */
static void bp_cycles_instret_init(void) {
    bp_cycles_instret_t probe;
    bp_cycles_status = bp_instructions_status = BP_COUNTER_ABSENT;
    if (!bp_arch_cycles_init()) {
        return;
    }
    bp_instructions_bits = bp_arch_instructions_bits();
    bp_cycles_instret_start(&probe);
    bp_cycles_instret_stop(&probe);
    bp_cycles_status = probe.cycles_stop != probe.cycles_start ? BP_COUNTER_OK : BP_COUNTER_STUCK;
    bp_instructions_status =
        probe.instructions_stop != probe.instructions_start ? BP_COUNTER_OK : BP_COUNTER_STUCK;
}

/* Counters of 64 bits never wrap, so they cannot be lower at the end of a window. A narrower one
 * that has gone back looks like one with far more instructions than cycles. */
static bool bp_cycles_instret_intact(const void *state) {
    const bp_cycles_instret_t *s = state;
    bool back = false;
    if (s != NULL) {
        uint64_t cycles = s->cycles_stop - s->cycles_start;
        uint64_t instructions = s->instructions_stop - s->instructions_start;
        if (bp_instructions_bits == 32) {
            instructions = (uint32_t)instructions;
        }
        back = s->cycles_stop < s->cycles_start ||
               (bp_cycles_status == BP_COUNTER_OK && instructions / 16 > cycles);
    }
    return bp_cycles_status == BP_COUNTER_ABSENT || (bp_arch_cycles_intact() && !back);
}

static void bp_cycles_instret_encode(uint8_t *out, const void *state) {
    bp_cycles_instret_put(out, state);
}

static void bp_cycles_instret_counter(bp_counter_t *out, uint8_t index) {
    out->name = index == 0 ? bp_cycles_name : bp_instructions_name;
    out->source = index == 0 ? bp_cycles_source : bp_instructions_source;
    out->bits = index == 0 ? 64 : bp_instructions_bits;
    out->status = index == 0 ? bp_cycles_status : bp_instructions_status;
}

const bp_collector_t bp_collector_cycles_instret BP_ROM = {
    .name = bp_cycles_name,
    .init = bp_cycles_instret_init,
    .start = bp_cycles_instret_start,
    .stop = bp_cycles_instret_stop,
    .intact = BP_CFG_GUARD ? bp_cycles_instret_intact : NULL,
    .encode = bp_cycles_instret_encode,
    .counter = bp_cycles_instret_counter,
#if BP_CFG_INTERRUPTS > 1
    .skip = bp_cycles_instret_skip,
#endif
    .layout_crc = BP_CYCLES_INSTRET_CRC,
    .schema_id = BP_CYCLES_INSTRET_SCHEMA,
    .body_length = BP_CYCLES_INSTRET_LEN,
    .version = BP_CYCLES_INSTRET_VERSION,
    .state_bytes = sizeof(bp_cycles_instret_t),
    .counters = 2,
};
