/* SPDX-License-Identifier: Apache-2.0 */
/* One 32-bit cycle counter: DWT CYCCNT on ARMv7-M, the low word of mcycle on RISC-V. */

#include "boardprof/bp.h"
#include "bp_arch.h"

static const char bp_cycles32_name[] BP_ROM = "cycles";

static const char bp_cycles32_source[] BP_ROM = BP_ARCH_CYCLES32_SOURCE;

static uint8_t bp_cycles32_status;

#if !BP_ARCH_HAS_CYCLES32
/* The counter is described as absent, so the host never starts it. */
static inline uint32_t bp_arch_cycles32(void) {
    return 0;
}
#endif

/* ID bits are not enough: QEMU's DWT_CTRL says "CYCCNT present", but CYCCNT never moves. */
static void bp_cycles32_init(void) {
    bp_cycles32_status = BP_COUNTER_ABSENT;
#if BP_ARCH_HAS_CYCLES32
    if (!bp_arch_cycles32_init()) {
        return;
    }
    uint32_t before = bp_arch_cycles32();
    for (volatile uint_fast8_t i = 0; i < 16; i++) {
    }
    bp_cycles32_status = bp_arch_cycles32() != before ? BP_COUNTER_OK : BP_COUNTER_STUCK;
#endif
}

static void bp_cycles32_start(void *state) {
    ((bp_cycles32_t *)state)->start = bp_arch_cycles32();
}

static void bp_cycles32_stop(void *state) {
    ((bp_cycles32_t *)state)->stop = bp_arch_cycles32();
}

static bool bp_cycles32_intact(const void *state) {
    (void)state; /* with 32 bits, it may have wrapped */
#if BP_ARCH_HAS_CYCLES32
    return bp_cycles32_status != BP_COUNTER_OK || bp_arch_cycles_intact();
#else
    return true;
#endif
}

static void bp_cycles32_encode(uint8_t *out, const void *state) {
    bp_cycles32_put(out, state);
}

static void bp_cycles32_counter(bp_counter_t *out, uint8_t index) {
    (void)index;
    out->name = bp_cycles32_name;
    out->source = bp_cycles32_source;
    out->bits = 32;
    out->status = bp_cycles32_status;
}

const bp_collector_t bp_collector_cycles32 BP_ROM = {
    .name = bp_cycles32_name,
    .init = bp_cycles32_init,
    .start = bp_cycles32_start,
    .stop = bp_cycles32_stop,
    .intact = BP_CFG_GUARD ? bp_cycles32_intact : NULL,
    .encode = bp_cycles32_encode,
    .counter = bp_cycles32_counter,
#if BP_CFG_INTERRUPTS > 1
    .skip = bp_cycles32_skip,
#endif
    .layout_crc = BP_CYCLES32_CRC,
    .schema_id = BP_CYCLES32_SCHEMA,
    .body_length = BP_CYCLES32_LEN,
    .version = BP_CYCLES32_VERSION,
    .state_bytes = sizeof(bp_cycles32_t),
    .counters = 1,
};
