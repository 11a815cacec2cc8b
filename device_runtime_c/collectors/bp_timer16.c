/* SPDX-License-Identifier: Apache-2.0 */
/* Cycles from a 16-bit timer whose interrupt counts its wraps. The interrupt runs within measured
 * windows, so its time is in the blob, and the host subtracts it. */

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"
#include "bp_arch.h"

static const char bp_timer16_name[] BP_ROM = "cycles";
static const char bp_timer16_source[] BP_ROM = BP_ARCH_TIMER16_SOURCE;

static uint16_t bp_timer16_interrupt_cycles; /* 0: the timer or its interrupt does not run */

typedef struct {
    bp_arch_timer16_t start;
    bp_arch_timer16_t stop;
#if BP_CFG_INTERRUPTS > 1
    uint32_t away; /* cycles to leave out, up to 268 s at 16 MHz */
    uint32_t away_interrupts;
#endif
} bp_timer16_state_t;

static void bp_timer16_init(void) {
    bp_timer16_interrupt_cycles = bp_arch_timer16_interrupt_cycles();
}

static void bp_timer16_start(void *state) {
    bp_timer16_state_t *s = state;
#if BP_CFG_INTERRUPTS > 1
    s->away = 0;
    s->away_interrupts = 0;
#endif
    bp_arch_timer16_read(&s->start);
}

static void bp_timer16_stop(void *state) {
    bp_arch_timer16_read(&((bp_timer16_state_t *)state)->stop);
}

static uint32_t bp_timer16_wraps(const bp_timer16_state_t *s) {
    return bp_arch_timer16_wraps(&s->stop) - bp_arch_timer16_wraps(&s->start);
}

/* Whether the timer runs as it did, and its count has not gone back without a wrap. */
static bool bp_timer16_intact(const void *state) {
    const bp_timer16_state_t *s = state;
    uint32_t wraps = s != NULL ? bp_timer16_wraps(s) : 0;
    bool back =
        s != NULL && (wraps > UINT32_MAX / 2 || (wraps == 0 && s->stop.count < s->start.count));
    return bp_port_clock_intact() && !back;
}

#if BP_CFG_INTERRUPTS > 1
/* Subtract the counts of the nested window `part` from the window `state`. The readings and their
 * flags alone could not show that a pending interrupt of the timer ran in `part`. */
static void bp_timer16_skip(void *state, const void *part) {
    bp_timer16_state_t *s = state;
    const bp_timer16_state_t *p = part;
    s->away += (bp_timer16_wraps(p) << 16) + p->stop.count - p->start.count;
    s->away_interrupts += p->stop.interrupts - p->start.interrupts;
}
#endif

/* An interrupt that was pending when the window opened has run within it; one that was pending when
 * it closed has not. So count how often the interrupt has run, not how often the timer has wrapped.
 */
static void bp_timer16_encode(uint8_t *out, const void *state) {
    const bp_timer16_state_t *s = state;
    bp_timer16_t blob = {
        .start = s->start.count,
        .stop = s->stop.count,
        .wraps = bp_timer16_wraps(s),
        .interrupts = s->stop.interrupts - s->start.interrupts,
        .interrupt_cycles = bp_timer16_interrupt_cycles,
        .return_cycles = BP_ARCH_RETURN_CYCLES,
    };
#if BP_CFG_INTERRUPTS > 1
    blob.start = (uint16_t)(s->start.count + s->away); /* as if it had begun that much later */
    blob.wraps -= (s->away >> 16) + (blob.start < s->start.count ? 1u : 0u);
    blob.interrupts -= s->away_interrupts;
#endif
    bp_timer16_put(out, &blob);
}

static void bp_timer16_counter(bp_counter_t *out, uint8_t index) {
    (void)index;
    out->name = bp_timer16_name;
    out->source = bp_timer16_source;
    out->hz = BP_ROM_GET(bp_port_clock.ticks_hz);
    out->bits = 16;
    out->counts_in_sleep = true;
    out->status = bp_timer16_interrupt_cycles != 0 ? BP_COUNTER_OK : BP_COUNTER_STUCK;
}

const bp_collector_t bp_collector_timer16 BP_ROM = {
    .name = bp_timer16_name,
    .init = bp_timer16_init,
    .start = bp_timer16_start,
    .stop = bp_timer16_stop,
    .intact = BP_CFG_GUARD ? bp_timer16_intact : NULL,
    .encode = bp_timer16_encode,
#if BP_CFG_INTERRUPTS > 1
    .skip = bp_timer16_skip,
#endif
    .counter = bp_timer16_counter,
    .layout_crc = BP_TIMER16_CRC,
    .schema_id = BP_TIMER16_SCHEMA,
    .body_length = BP_TIMER16_LEN,
    .version = BP_TIMER16_VERSION,
    .state_bytes = sizeof(bp_timer16_state_t),
    .counters = 1,
};
