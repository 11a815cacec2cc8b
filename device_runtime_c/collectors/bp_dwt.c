/* SPDX-License-Identifier: Apache-2.0 */
/* All counters of the DWT: CYCCNT, and five 8-bit counters. These are correct in windows with less
 * than 256 of their events. Each counts at most one event a cycle.
 *
 * ARMv7-M Architecture Reference Manual (DDI 0403): DEMCR C1.6.5, DWT C1.8. Only SLEEPCNT counts
 * while the core sleeps. */

#include "boardprof/bp.h"
#include "bp_arch_reg.h"

#define BP_DEMCR 0xe000edfcu
#define BP_DEMCR_TRCENA (1u << 24)
#define BP_DWT_LAR 0xe0001fb0u
#define BP_DWT_UNLOCK 0xc5acce55u
#define BP_ITM_TCR 0xe0000e80u
#define BP_ITM_SENDS (1u << 3 | 1u) /* TXENA: packets of the DWT, too; ITMENA (C1.7.6) */
#define BP_DWT_CTRL 0xe0001000u
#define BP_DWT_ALL (0x1fu << 17 | 1u) /* FOLD, LSU, SLEEP, EXC and CPI events, CYCCNT */
#define BP_DWT_CYCCNT 0xe0001004u
#define BP_DWT_CPICNT 0xe0001008u
#define BP_DWT_EXCCNT 0xe000100cu
#define BP_DWT_SLEEPCNT 0xe0001010u
#define BP_DWT_LSUCNT 0xe0001014u
#define BP_DWT_FOLDCNT 0xe0001018u

enum { BP_COUNTERS = 6 };

static const char bp_dwt_name[] BP_ROM = "dwt";
static const char bp_dwt_names[BP_COUNTERS][8] BP_ROM = {"cycles", "cpi", "exc",
                                                         "sleep",  "lsu", "fold"};
static const char bp_dwt_sources[BP_COUNTERS][16] BP_ROM = {
    "DWT CYCCNT", "DWT CPICNT", "DWT EXCCNT", "DWT SLEEPCNT", "DWT LSUCNT", "DWT FOLDCNT"};

static uint8_t bp_dwt_status[BP_COUNTERS];

/* CYCCNT is read outermost, so no other counter can exceed it (except SLEEPCNT). */
static void bp_dwt_start(void *state) {
    bp_dwt_t *s = state;
    s->cycles_start = bp_arch_reg(BP_DWT_CYCCNT);
    s->cpi_start = (uint8_t)bp_arch_reg(BP_DWT_CPICNT);
    s->exc_start = (uint8_t)bp_arch_reg(BP_DWT_EXCCNT);
    s->sleep_start = (uint8_t)bp_arch_reg(BP_DWT_SLEEPCNT);
    s->lsu_start = (uint8_t)bp_arch_reg(BP_DWT_LSUCNT);
    s->fold_start = (uint8_t)bp_arch_reg(BP_DWT_FOLDCNT);
}

static void bp_dwt_stop(void *state) {
    bp_dwt_t *s = state;
    s->fold_stop = (uint8_t)bp_arch_reg(BP_DWT_FOLDCNT);
    s->lsu_stop = (uint8_t)bp_arch_reg(BP_DWT_LSUCNT);
    s->sleep_stop = (uint8_t)bp_arch_reg(BP_DWT_SLEEPCNT);
    s->exc_stop = (uint8_t)bp_arch_reg(BP_DWT_EXCCNT);
    s->cpi_stop = (uint8_t)bp_arch_reg(BP_DWT_CPICNT);
    s->cycles_stop = bp_arch_reg(BP_DWT_CYCCNT);
}

/* A probe can only cause loads (CPI and LSU must then advance). It causes no exception, no sleep,
 * and perhaps no folding, so those counters cannot be seen to advance. They are assumed to be
 * present if their enable bit can be set and CYCCNT and LSUCNT have advanced. */
static uint32_t bp_dwt_enabled; /* which of BP_DWT_ALL can be set */

static void bp_dwt_open(void) {
    bp_arch_reg_put(BP_DEMCR, bp_arch_reg(BP_DEMCR) | BP_DEMCR_TRCENA);
    bp_arch_reg_put(BP_DWT_LAR, BP_DWT_UNLOCK); /* some Cortex-M7 are locked; see bp_arch.h */
}

static void bp_dwt_enable(uint32_t counters) {
    bp_arch_reg_put(BP_DWT_CTRL, (bp_arch_reg(BP_DWT_CTRL) & ~BP_DWT_ALL) | counters);
}

/* A debugger that records the trace port gets a packet whenever an enabled 8-bit counter wraps
 * (C1.8.3). So then those that it has not enabled stay off. */
static void bp_dwt_init(void) {
    bp_dwt_t probe;
    bp_dwt_open();
    bool is_traced = (bp_arch_reg(BP_ITM_TCR) & BP_ITM_SENDS) == BP_ITM_SENDS;
    bp_dwt_enable(is_traced ? (bp_arch_reg(BP_DWT_CTRL) & BP_DWT_ALL) | 1u : BP_DWT_ALL);
    uint32_t enabled = bp_dwt_enabled = bp_arch_reg(BP_DWT_CTRL) & BP_DWT_ALL;
    uint8_t off = is_traced ? BP_COUNTER_REFUSED : BP_COUNTER_ABSENT;
    bp_dwt_start(&probe);
    bp_dwt_stop(&probe);
    bool cycles = probe.cycles_stop != probe.cycles_start;
    bool events = cycles && probe.lsu_stop != probe.lsu_start;
    bp_dwt_status[0] = cycles ? BP_COUNTER_OK : BP_COUNTER_STUCK;
    for (uint_fast8_t i = 1; i < BP_COUNTERS; i++) {
        bool on = (enabled >> (16 + i) & 1u) != 0; /* in this order, from bit 17 on */
        bp_dwt_status[i] = !on ? off : events ? BP_COUNTER_OK : BP_COUNTER_STUCK;
    }
}

static bool bp_dwt_intact(const void *state) {
    (void)state; /* its counters may have wrapped */
    bool intact = bp_dwt_status[0] != BP_COUNTER_OK ||
                  ((bp_arch_reg(BP_DEMCR) & BP_DEMCR_TRCENA) != 0 &&
                   (bp_arch_reg(BP_DWT_CTRL) & BP_DWT_ALL) == bp_dwt_enabled);
    if (!intact) {
        bp_dwt_open();
        bp_dwt_enable(bp_dwt_enabled);
    }
    return intact;
}

static void bp_dwt_encode(uint8_t *out, const void *state) {
    bp_dwt_put(out, state);
}

static void bp_dwt_counter(bp_counter_t *out, uint8_t index) {
    out->name = bp_dwt_names[index];
    out->source = bp_dwt_sources[index];
    out->bits = index == 0 ? 32 : 8;
    out->counts_in_sleep = index == 3;
    out->status = bp_dwt_status[index];
    out->detail = out->status == BP_COUNTER_REFUSED ? 16 : 0; /* EBUSY */
}

const bp_collector_t bp_collector_dwt BP_ROM = {
    .name = bp_dwt_name,
    .init = bp_dwt_init,
    .start = bp_dwt_start,
    .stop = bp_dwt_stop,
    .intact = BP_CFG_GUARD ? bp_dwt_intact : NULL,
    .encode = bp_dwt_encode,
    .counter = bp_dwt_counter,
#if BP_CFG_INTERRUPTS > 1
    .skip = bp_dwt_skip,
#endif
    .layout_crc = BP_DWT_CRC,
    .schema_id = BP_DWT_SCHEMA,
    .body_length = BP_DWT_LEN,
    .version = BP_DWT_VERSION,
    .state_bytes = sizeof(bp_dwt_t),
    .counters = BP_COUNTERS,
};
