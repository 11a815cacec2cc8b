/* SPDX-License-Identifier: Apache-2.0 */
/* The single performance counter of the ESP32-C3, as one slot. It has three CSRs of its own instead
 * of mcycle and minstret (ESP32-C3 Technical Reference Manual, ESP-RISC-V CPU: mpcer, mpcmr and
 * mpccr). Tested on a model of them, not on a chip yet. */

#include "boardprof/bp.h"
#include "bp_arch.h"

static const char bp_esp32c3_name[] BP_ROM = "esp32c3";
static const char bp_esp32c3_slot[] BP_ROM = "slot0";
static const char bp_esp32c3_source[] BP_ROM = "mpccr";

/* Assemblers do not know these by name. A test replaces them with a model. */
#ifndef BP_ESP32C3_READ
#define BP_ESP32C3_MPCER "0x7e0" /* which events: one bit each */
#define BP_ESP32C3_MPCMR "0x7e1" /* bit 0: count; bit 1: stop at the maximum */
#define BP_ESP32C3_MPCCR "0x7e2" /* the count */
#define BP_ESP32C3_READ(csr)                                \
    (__extension__({                                        \
        uint32_t bp_value;                                  \
        __asm__ volatile("csrr %0, " csr : "=r"(bp_value)); \
        bp_value;                                           \
    }))
#define BP_ESP32C3_WRITE(csr, value) __asm__ volatile("csrw " csr ", %0" : : "r"(value))
#endif

enum {
    BP_EVENTS = 0x7ff, /* CYCLE, INST, LD_HAZARD, JMP_HAZARD, IDLE, LOAD, STORE, JMP_UNCOND, BRANCH,
                          BRANCH_TAKEN, INST_COMP, from bit 0 on */
    BP_COUNT = 1,      /* and wrap instead of stopping, so differences are modulo 2^32 */
};

static uint8_t bp_status;

static void bp_off(void) {
    BP_ESP32C3_WRITE(BP_ESP32C3_MPCMR, 0);
    BP_ESP32C3_WRITE(BP_ESP32C3_MPCER, 0);
    bp_status = BP_COUNTER_ABSENT;
}

static void bp_esp32c3_init(void) {
    bp_off();
}

#if BP_CFG_OPEN_WINDOWS

/* The event register must read back, and hold one event. With several, it counts one of them at a
 * time, and nobody could tell which. */
static uint8_t bp_program(const uintptr_t *events, uint_fast8_t slot) {
    uint32_t event = (uint32_t)events[slot];
    if (event == 0 || (event & (event - 1)) != 0) {
        return BP_COUNTER_ABSENT;
    }
    BP_ESP32C3_WRITE(BP_ESP32C3_MPCER, event);
    BP_ESP32C3_WRITE(BP_ESP32C3_MPCCR, 0);
    BP_ESP32C3_WRITE(BP_ESP32C3_MPCMR, BP_COUNT);
    if (BP_ESP32C3_READ(BP_ESP32C3_MPCER) != event) {
        bp_off();
        return BP_COUNTER_ABSENT;
    }
    return BP_COUNTER_OK;
}

static int bp_esp32c3_select(bp_call_t *call) {
    static const bp_select_t select = {
        .largest = BP_EVENTS,
        .all_off = bp_off,
        .program = bp_program,
        .status = &bp_status,
        .slots = 1,
    };
    return bp_select_slots(call, &select);
}

#endif

static void bp_esp32c3_start(void *state) {
    ((bp_esp32c3_t *)state)->start = BP_ESP32C3_READ(BP_ESP32C3_MPCCR);
}

static void bp_esp32c3_stop(void *state) {
    ((bp_esp32c3_t *)state)->stop = BP_ESP32C3_READ(BP_ESP32C3_MPCCR);
}

static void bp_esp32c3_encode(uint8_t *out, const void *state) {
    bp_esp32c3_put(out, state);
}

static void bp_esp32c3_counter(bp_counter_t *out, uint8_t index) {
    (void)index;
    out->name = bp_esp32c3_slot;
    out->source = bp_esp32c3_source;
    out->bits = 32;
    out->status = bp_status;
}

const bp_collector_t bp_collector_esp32c3 BP_ROM = {
    .name = bp_esp32c3_name,
    .init = bp_esp32c3_init,
    .start = bp_esp32c3_start,
    .stop = bp_esp32c3_stop,
    .encode = bp_esp32c3_encode,
    .counter = bp_esp32c3_counter,
#if BP_CFG_OPEN_WINDOWS
    .select = bp_esp32c3_select,
#endif
#if BP_CFG_INTERRUPTS > 1
    .skip = bp_esp32c3_skip,
#endif
    .layout_crc = BP_ESP32C3_CRC,
    .schema_id = BP_ESP32C3_SCHEMA,
    .body_length = BP_ESP32C3_LEN,
    .version = BP_ESP32C3_VERSION,
    .state_bytes = sizeof(bp_esp32c3_t),
    .counters = 1,
};
