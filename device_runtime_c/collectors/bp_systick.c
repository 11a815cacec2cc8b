/* SPDX-License-Identifier: Apache-2.0 */
/* The core's cycles from SysTick, for Cortex-M without DWT CYCCNT (M0, M0+, M23): 24 bits, with the
 * port's coarse clock to tell how often they wrapped.
 *
 * ARMv6-M ARM (DDI 0419) and ARMv7-M ARM (DDI 0403), both B3.3. The port must not use SysTick. Its
 * build sets the core's rate in BP_SYSTICK_HZ. It continues in sleep, but not in deep sleep. */

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"
#include "bp_arch.h"
#include "bp_arch_reg.h"

#ifndef BP_SYSTICK_HZ
#define BP_SYSTICK_HZ 0 /* not set: a second wrap within a window cannot be detected */
#endif

#define BP_SYST_CSR 0xe000e010u
#define BP_SYST_RVR 0xe000e014u
#define BP_SYST_CVR 0xe000e018u
#define BP_SYST_CORE_CLOCK 5u /* CLKSOURCE, ENABLE; no exception */
#define BP_SYST_MASK 0xffffffu

static const char bp_systick_name[] BP_ROM = "systick";
static const char bp_systick_cycles[] BP_ROM = "cycles";
static const char bp_systick_source[] BP_ROM = "SysTick";

static uint8_t bp_systick_status;

/* It counts down. */
static inline uint32_t bp_systick_read(void) {
    return BP_SYST_MASK - (bp_arch_reg(BP_SYST_CVR) & BP_SYST_MASK);
}

static void bp_systick_set(void) {
    bp_arch_reg_put(BP_SYST_RVR, BP_SYST_MASK);
    bp_arch_reg_put(BP_SYST_CSR, BP_SYST_CORE_CLOCK);
}

static void bp_systick_init(void) {
    bp_arch_reg_put(BP_SYST_CVR, 0);
    bp_systick_set();
    uint32_t before = bp_systick_read();
    bp_systick_status = BP_COUNTER_STUCK;
    for (uint16_t i = 0; i < 1000 && bp_systick_status != BP_COUNTER_OK; i++) {
        if (bp_systick_read() != before) {
            bp_systick_status = BP_COUNTER_OK;
        }
    }
}

/* Whether a window is as long as the coarse clock says, whatever wrapped. That clock may be off by
 * two of its ticks and a 32nd. If this is a quarter of a wrap, the window is too long to tell. */
static bool bp_systick_agrees(const bp_systick_t *s) {
    uint32_t hz = BP_ROM_GET(bp_port_clock.coarse_hz);
    bool is_held = BP_CFG_INTERRUPTS < 2 && BP_CFG_BASEPRI == 0; /* nothing comes in between */
    uint32_t rate = hz != 0 && is_held ? BP_SYSTICK_HZ / hz : 0;
    uint32_t coarse = s->coarse_stop - s->coarse_start;
    if (rate == 0 || BP_SYSTICK_HZ % hz != 0 || coarse >= UINT32_MAX / rate) {
        return true;
    }
    uint32_t elapsed = coarse * rate;
    uint32_t tolerance = 2 * rate + elapsed / 32;
    uint32_t apart = (s->stop - s->start - elapsed + tolerance) & BP_SYST_MASK;
    return tolerance >= BP_SYST_MASK / 4 || apart <= 2 * tolerance;
}

static bool bp_systick_intact(const void *state) {
    bool intact = (bp_arch_reg(BP_SYST_CSR) & 7u) == BP_SYST_CORE_CLOCK &&
                  bp_arch_reg(BP_SYST_RVR) == BP_SYST_MASK &&
                  (state == NULL || bp_systick_agrees(state));
    bp_systick_set();
    return intact;
}

/* No interrupt comes between the two clocks, or they would not agree. */
static void bp_systick_start(void *state) {
    bp_systick_t *s = state;
    uintptr_t before = bp_arch_lock();
    s->coarse_start = bp_port_coarse();
    s->start = bp_systick_read();
    bp_arch_unlock(before);
}

static void bp_systick_stop(void *state) {
    bp_systick_t *s = state;
    uintptr_t before = bp_arch_lock();
    s->stop = bp_systick_read();
    s->coarse_stop = bp_port_coarse();
    bp_arch_unlock(before);
}

static void bp_systick_encode(uint8_t *out, const void *state) {
    bp_systick_put(out, state);
}

static void bp_systick_counter(bp_counter_t *out, uint8_t index) {
    (void)index;
    out->name = bp_systick_cycles;
    out->source = bp_systick_source;
    out->hz = BP_SYSTICK_HZ;
    out->coarse_hz = BP_ROM_GET(bp_port_clock.coarse_hz);
    out->bits = 24;
    out->counts_in_sleep = true;
    out->status = bp_systick_status;
}

const bp_collector_t bp_collector_systick BP_ROM = {
    .name = bp_systick_name,
    .init = bp_systick_init,
    .start = bp_systick_start,
    .stop = bp_systick_stop,
    .intact = BP_CFG_GUARD ? bp_systick_intact : NULL,
    .encode = bp_systick_encode,
    .counter = bp_systick_counter,
#if BP_CFG_INTERRUPTS > 1
    .skip = bp_systick_skip,
#endif
    .layout_crc = BP_SYSTICK_CRC,
    .schema_id = BP_SYSTICK_SCHEMA,
    .body_length = BP_SYSTICK_LEN,
    .version = BP_SYSTICK_VERSION,
    .state_bytes = sizeof(bp_systick_t),
    .counters = 1,
};
