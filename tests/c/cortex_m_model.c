/* SPDX-License-Identifier: Apache-2.0 */
/* The registers of a Cortex-M that its collectors read, and what they do as time goes by: a cycle
 * passes with each access, and as many as a test wants in between. */

#include <stdbool.h>
#include <stdint.h>

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"
#include "bp_arch.h"

/* As in arch/bp_arch_reg.h, whose own are weak. */
uint32_t test_reg_read(uint32_t address);
void test_reg_write(uint32_t address, uint32_t value);

bool model_has_dwt, model_cyccnt_moves, model_events_move, model_has_pmu, model_systick_moves;
uint32_t model_itm_tcr;
uint32_t model_locked_reads; /* of the coarse clock */
uintptr_t test_locks;
void (*test_unlocked)(void);
uint32_t model_lock; /* what the DWT's lock wants to be told; 0: it is open */

static uint32_t demcr, dwt_ctrl, cyccnt, short_counts[5]; /* CPI, EXC, SLEEP, LSU, FOLD */
static uint32_t csr, rvr, cvr;
static uint32_t pmu_ctrl, pmu_enabled, types[8], counts[8];

void model_reset(void);
void model_run(uint32_t cycles, uint32_t sleeping, uint32_t loads);
void model_event(uint32_t event, uint32_t times);
void model_preset(uint32_t cycles, uint8_t each, uint32_t pairs, uint32_t down);
uint8_t model_status(const bp_collector_t *collector, uint8_t index, uint8_t *bits);
const bp_collector_t *model_collector(uint8_t which);

void model_reset(void) {
    model_has_dwt = model_cyccnt_moves = model_events_move = true;
    model_has_pmu = model_systick_moves = true;
    model_itm_tcr = model_locked_reads = model_lock = demcr = dwt_ctrl = cyccnt = csr = rvr = cvr =
        pmu_ctrl = pmu_enabled = 0;
    for (int i = 0; i < 5; i++) {
        short_counts[i] = 0;
    }
    for (int i = 0; i < 8; i++) {
        types[i] = counts[i] = 0;
    }
}

static bool dwt_on(uint32_t bit) {
    return model_has_dwt && (demcr >> 24 & 1u) != 0 && (dwt_ctrl >> bit & 1u) != 0;
}

/* DDI 0403, C1.8.9 to C1.8.13: bits 17 to 21 of DWT_CTRL, in this order. */
static void count_short(uint32_t which, uint32_t times) {
    if (dwt_on(17 + which) && model_events_move) {
        short_counts[which] = (short_counts[which] + times) & 0xffu;
    }
}

void model_event(uint32_t event, uint32_t times) {
    for (uint32_t i = 0; i < 8 && model_has_pmu; i++) {
        bool on = (demcr >> 24 & 1u) && (pmu_ctrl & 1u) && (pmu_enabled >> i & 1u);
        if (!on || types[i] != event || types[i] == 0x1e) {
            continue;
        }
        uint32_t sum = counts[i] + times;
        counts[i] = sum & 0xffffu;
        if (i % 2 == 0 && types[i + 1] == 0x1e && (pmu_enabled >> (i + 1) & 1u)) {
            counts[i + 1] = (counts[i + 1] + (sum >> 16)) & 0xffffu;
        }
    }
}

/* `sleeping` cycles on top of `cycles`, and the loads' stalls are in `cycles`. */
void model_run(uint32_t cycles, uint32_t sleeping, uint32_t loads) {
    if (dwt_on(0) && model_cyccnt_moves) {
        cyccnt += cycles; /* it stops in sleep */
    }
    count_short(2, sleeping);
    count_short(3, loads);
    model_event(0x11, cycles);
    if ((csr & 1u) != 0 && model_systick_moves) {
        uint32_t period = rvr + 1u;
        uint64_t left = cycles + sleeping;
        cvr = (uint32_t)(((uint64_t)cvr + period - left % period) % period);
    }
}

/* Set all counters to where a test wants them. */
void model_preset(uint32_t cycles, uint8_t each, uint32_t pairs, uint32_t down) {
    cyccnt = cycles;
    cvr = down;
    for (int i = 0; i < 5; i++) {
        short_counts[i] = each;
    }
    for (int i = 0; i < 8; i++) {
        counts[i] = i % 2 == 0 ? pairs & 0xffffu : pairs >> 16;
    }
}

uint32_t test_reg_read(uint32_t address) {
    model_run(1, 0, 1);
    if (address >= 0xe0003000u && address < 0xe0003020u) {
        return model_has_pmu ? counts[(address - 0xe0003000u) / 4] : 0;
    }
    if (address >= 0xe0003400u && address < 0xe0003420u) {
        return model_has_pmu ? types[(address - 0xe0003400u) / 4] : 0;
    }
    if (address >= 0xe0001008u && address <= 0xe0001018u) {
        return model_has_dwt ? short_counts[(address - 0xe0001008u) / 4] : 0;
    }
    switch (address) {
    case 0xe000edfcu:
        return demcr;
    case 0xe0000e80u:
        return model_itm_tcr;
    case 0xe0001000u:
        return model_has_dwt ? dwt_ctrl : 0;
    case 0xe0001004u:
        return model_has_dwt ? cyccnt : 0;
    case 0xe0003e00u:
        return 8; /* PMU_TYPE tells of counters, be they there or not */
    case 0xe000e018u:
        return cvr;
    default:
        return 0;
    }
}

void test_reg_write(uint32_t address, uint32_t value) {
    model_run(1, 0, 0);
    if (address >= 0xe0003000u && address < 0xe0003020u) {
        counts[(address - 0xe0003000u) / 4] = value & 0xffffu;
    } else if (address >= 0xe0003400u && address < 0xe0003420u) {
        types[(address - 0xe0003400u) / 4] = model_has_pmu ? value & 0xffffu : 0;
    } else if (address == 0xe000edfcu) {
        demcr = value;
    } else if (address == 0xe0001fb0u && value == model_lock) {
        model_lock = 0;
    } else if (address == 0xe0001000u && model_lock == 0) {
        dwt_ctrl = value;
    } else if (address == 0xe0003c00u) {
        pmu_enabled |= value;
    } else if (address == 0xe0003c20u) {
        pmu_enabled &= ~value;
    } else if (address == 0xe0003e04u) {
        pmu_ctrl = value;
    } else if (address == 0xe000e010u) {
        csr = value;
    } else if (address == 0xe000e014u) {
        rvr = value;
    } else if (address == 0xe000e018u) {
        cvr = 0; /* whatever is written */
    }
}

/// What a test asks ///

extern const bp_collector_t bp_collector_systick, bp_collector_dwt, bp_collector_armv8m_pmu;

const bp_collector_t *model_collector(uint8_t which) {
    const bp_collector_t *all[] = {&bp_collector_systick, &bp_collector_dwt,
                                   &bp_collector_armv8m_pmu};
    return all[which];
}

uint8_t model_status(const bp_collector_t *collector, uint8_t index, uint8_t *bits) {
    bp_counter_t counter = {0};
    collector->counter(&counter, index);
    *bits = counter.bits;
    return counter.status;
}

/// The rest of a board, as far as the collectors need it ///

uint32_t model_coarse;

const bp_port_clock_t bp_port_clock = {.coarse_hz = 1000000};

uint32_t bp_port_coarse(void) {
    model_locked_reads += test_locks != 0;
    return model_coarse;
}

uint8_t model_select(const uint8_t *in, size_t length, uint8_t argc, uint8_t *out);
uint8_t model_select(const uint8_t *in, size_t length, uint8_t argc, uint8_t *out) {
    bp_call_t call = {
        .in = in, .in_end = in + length, .out = out, .out_end = out + 64, .argc = argc};
    bp_collector_armv8m_pmu.select(&call);
    return (uint8_t)(call.err != 0 ? 0 : call.out - out);
}
