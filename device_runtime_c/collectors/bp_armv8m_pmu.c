/* SPDX-License-Identifier: Apache-2.0 */
/* The performance monitor of ARMv8.1-M (M52, M55, M85). Its 16-bit counters work in pairs, one for
 * an event and one for its wraps (CHAIN), as four slots of 32 bits.
 *
 * ARMv8-M Architecture Reference Manual (DDI 0553), B14 and D1.2, PMU registers. Its cycle counter
 * is that of the DWT, which the collector cycles32 reads. */

#include "boardprof/bp.h"
#include "bp_arch_reg.h"

enum { BP_SLOTS = 4 };

#define BP_DEMCR 0xe000edfcu
#define BP_DEMCR_TRCENA (1u << 24)
#define BP_PMU_EVCNTR(n) (0xe0003000u + 4u * (n))
#define BP_PMU_EVTYPER(n) (0xe0003400u + 4u * (n))
#define BP_PMU_CNTENSET 0xe0003c00u
#define BP_PMU_CNTENCLR 0xe0003c20u
#define BP_PMU_TYPE 0xe0003e00u /* N, the number of counters, in bits 0 to 7 */
#define BP_PMU_CTRL 0xe0003e04u
#define BP_PMU_CTRL_ENABLE 1u

#define BP_EVENT_CPU_CYCLES 0x11u
#define BP_EVENT_CHAIN 0x1eu

static const char bp_armv8m_pmu_name[] BP_ROM = "armv8m_pmu";
static const char bp_pmu_names[BP_SLOTS][8] BP_ROM = {"slot0", "slot1", "slot2", "slot3"};
static const char bp_pmu_sources[BP_SLOTS][16] BP_ROM = {"PMU_EVCNTR0, 1", "PMU_EVCNTR2, 3",
                                                         "PMU_EVCNTR4, 5", "PMU_EVCNTR6, 7"};

static uint8_t bp_pmu_status[BP_SLOTS]; /* enum bp_counter_status */
static uint8_t bp_pmu_there;            /* number of slots that were seen to count cycles */

/// The registers ///

/* Read wraps and count, 16 bits each; read again if a wrap came in between. */
static uint32_t bp_pmu_read(uint32_t slot) {
    uint32_t high = bp_arch_reg(BP_PMU_EVCNTR(2 * slot + 1)) & 0xffffu;
    uint32_t low = bp_arch_reg(BP_PMU_EVCNTR(2 * slot)) & 0xffffu;
    uint32_t again = bp_arch_reg(BP_PMU_EVCNTR(2 * slot + 1)) & 0xffffu;
    if (again != high) {
        low = bp_arch_reg(BP_PMU_EVCNTR(2 * slot)) & 0xffffu;
    }
    return again << 16 | low;
}

static void bp_pmu_off(uint32_t slot) {
    bp_arch_reg_put(BP_PMU_CNTENCLR, 3u << 2 * slot);
    bp_pmu_status[slot] = BP_COUNTER_ABSENT;
}

/* Returns whether both event registers hold what was written. */
static bool bp_pmu_program(uint32_t slot, uint32_t event) {
    bp_arch_reg_put(BP_PMU_CNTENCLR, 3u << 2 * slot);
    bp_arch_reg_put(BP_PMU_EVTYPER(2 * slot), event);
    bp_arch_reg_put(BP_PMU_EVTYPER(2 * slot + 1), BP_EVENT_CHAIN);
    bp_arch_reg_put(BP_PMU_EVCNTR(2 * slot), 0);
    bp_arch_reg_put(BP_PMU_EVCNTR(2 * slot + 1), 0);
    bp_arch_reg_put(BP_PMU_CNTENSET, 3u << 2 * slot);
    return bp_arch_reg(BP_PMU_EVTYPER(2 * slot)) == event &&
           bp_arch_reg(BP_PMU_EVTYPER(2 * slot + 1)) == BP_EVENT_CHAIN;
}

/* A slot counts as present once it was seen to count cycles: PMU_TYPE alone proves nothing. */
static void bp_armv8m_pmu_init(void) {
    bp_arch_reg_put(BP_DEMCR, bp_arch_reg(BP_DEMCR) | BP_DEMCR_TRCENA);
    bp_arch_reg_put(BP_PMU_CTRL, BP_PMU_CTRL_ENABLE);
    uint32_t pairs = (bp_arch_reg(BP_PMU_TYPE) & 0xffu) / 2;
    bp_pmu_there = 0;
    for (uint32_t slot = 0; slot < BP_SLOTS; slot++) {
        bool counts = slot < pairs && bp_pmu_program(slot, BP_EVENT_CPU_CYCLES);
        uint32_t before = bp_pmu_read(slot);
        if (counts && bp_pmu_read(slot) != before && bp_pmu_there == slot) {
            bp_pmu_there++;
        }
        bp_pmu_off(slot);
        if (bp_pmu_there <= slot) {
            bp_pmu_status[slot] = BP_COUNTER_STUCK;
        }
    }
}

/// Programming ///

#if BP_CFG_OPEN_WINDOWS

/* CHAIN, and numbers wider than the register, are not events here. */
static uint8_t bp_pmu_select_one(const uintptr_t *events, uint_fast8_t slot) {
    uint32_t event = (uint32_t)events[slot];
    if (slot >= bp_pmu_there) {
        return BP_COUNTER_STUCK;
    }
    if (event > 0xffffu || event == BP_EVENT_CHAIN || !bp_pmu_program(slot, event)) {
        bp_pmu_off(slot);
        return BP_COUNTER_ABSENT;
    }
    return BP_COUNTER_OK;
}

static void bp_pmu_all_off(void) {
    for (uint32_t slot = 0; slot < bp_pmu_there; slot++) {
        bp_pmu_off(slot);
    }
}

static int bp_armv8m_pmu_select(bp_call_t *call) {
    static const bp_select_t select = {
        .largest = UINT32_MAX,
        .all_off = bp_pmu_all_off,
        .program = bp_pmu_select_one,
        .status = bp_pmu_status,
        .slots = BP_SLOTS,
    };
    return bp_select_slots(call, &select);
}

#endif

/// Windows ///

static void bp_armv8m_pmu_start(void *state) {
    bp_armv8m_pmu_t *s = state;
    s->slot3_start = bp_pmu_read(3);
    s->slot2_start = bp_pmu_read(2);
    s->slot1_start = bp_pmu_read(1);
    s->slot0_start = bp_pmu_read(0);
}

static void bp_armv8m_pmu_stop(void *state) {
    bp_armv8m_pmu_t *s = state;
    s->slot0_stop = bp_pmu_read(0);
    s->slot1_stop = bp_pmu_read(1);
    s->slot2_stop = bp_pmu_read(2);
    s->slot3_stop = bp_pmu_read(3);
}

static void bp_armv8m_pmu_encode(uint8_t *out, const void *state) {
    bp_armv8m_pmu_put(out, state);
}

static void bp_armv8m_pmu_counter(bp_counter_t *out, uint8_t index) {
    out->name = bp_pmu_names[index];
    out->source = bp_pmu_sources[index];
    out->bits = 32;
    out->status = bp_pmu_status[index];
}

const bp_collector_t bp_collector_armv8m_pmu BP_ROM = {
    .name = bp_armv8m_pmu_name,
    .init = bp_armv8m_pmu_init,
    .start = bp_armv8m_pmu_start,
    .stop = bp_armv8m_pmu_stop,
    .encode = bp_armv8m_pmu_encode,
    .counter = bp_armv8m_pmu_counter,
#if BP_CFG_OPEN_WINDOWS
    .select = bp_armv8m_pmu_select,
#endif
#if BP_CFG_INTERRUPTS > 1
    .skip = bp_armv8m_pmu_skip,
#endif
    .layout_crc = BP_ARMV8M_PMU_CRC,
    .schema_id = BP_ARMV8M_PMU_SCHEMA,
    .body_length = BP_ARMV8M_PMU_LEN,
    .version = BP_ARMV8M_PMU_VERSION,
    .state_bytes = sizeof(bp_armv8m_pmu_t),
    .counters = BP_SLOTS,
};
