/* SPDX-License-Identifier: Apache-2.0 */
/* The board's tick counter, with its coarse clock to tell how often it wrapped. */

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"

static const char bp_ticks_name[] BP_ROM = "ticks";

static uint8_t bp_ticks_status;

/* A slow counter needs a while to show that it moves. A stuck one must not hold up the board. */
static void bp_ticks_init(void) {
    bp_ticks_status = BP_COUNTER_ABSENT;
    if (BP_ROM_GET(bp_port_clock.ticks_hz) == 0) {
        return;
    }
    uint64_t before = bp_port_ticks();
    bp_ticks_status = BP_COUNTER_STUCK;
    for (uint16_t i = 0; i < 10000; i++) {
        if (bp_port_ticks() != before) {
            bp_ticks_status = BP_COUNTER_OK;
            return;
        }
    }
}

__attribute__((weak)) bool bp_port_clock_intact(void) {
    return true;
}

/* A clock of 64 bits never wraps, so it cannot be lower at the end of a window. */
static bool bp_ticks_intact(const void *state) {
    const bp_ticks_t *s = state;
    bool back = s != NULL && BP_ROM_GET(bp_port_clock.ticks_bits) == 64 && s->stop < s->start;
    return bp_port_clock_intact() && !back;
}

static void bp_ticks_start(void *state) {
    bp_ticks_t *s = state;
    s->coarse_start = bp_port_coarse();
    s->start = bp_port_ticks();
}

static void bp_ticks_stop(void *state) {
    bp_ticks_t *s = state;
    s->stop = bp_port_ticks();
    s->coarse_stop = bp_port_coarse();
}

static void bp_ticks_encode(uint8_t *out, const void *state) {
    bp_ticks_put(out, state);
}

static void bp_ticks_counter(bp_counter_t *out, uint8_t index) {
    (void)index;
    out->name = bp_ticks_name;
    out->source = BP_ROM_GET(bp_port_clock.source);
    out->hz = BP_ROM_GET(bp_port_clock.ticks_hz);
    out->coarse_hz = BP_ROM_GET(bp_port_clock.coarse_hz);
    out->bits = BP_ROM_GET(bp_port_clock.ticks_bits);
    out->counts_in_sleep = BP_ROM_GET(bp_port_clock.ticks_in_sleep);
    out->status = bp_ticks_status;
}

const bp_collector_t bp_collector_ticks BP_ROM = {
    .name = bp_ticks_name,
    .init = bp_ticks_init,
    .start = bp_ticks_start,
    .stop = bp_ticks_stop,
    .intact = BP_CFG_GUARD ? bp_ticks_intact : NULL,
    .encode = bp_ticks_encode,
    .counter = bp_ticks_counter,
#if BP_CFG_INTERRUPTS > 1
    .skip = bp_ticks_skip,
#endif
    .layout_crc = BP_TICKS_CRC,
    .schema_id = BP_TICKS_SCHEMA,
    .body_length = BP_TICKS_LEN,
    .version = BP_TICKS_VERSION,
    .state_bytes = sizeof(bp_ticks_t),
    .counters = 1,
};
