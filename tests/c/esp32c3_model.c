/* SPDX-License-Identifier: Apache-2.0 */
/* ESP32-C3's performance counter (Technical Reference Manual, ESP-RISC-V CPU): one count of the
 * events whose bits are set, which goes on from 0 or stops at its greatest value. */

#include <stdbool.h>

#include "boardprof/bp.h"
#include "esp32c3_model.h"

bool model_is_there; /* a core without the registers reads 0 */

static uint32_t mpcer, mpcmr, mpccr;

extern const bp_collector_t bp_collector_esp32c3;

void model_reset(void);
void model_event(uint32_t events, uint32_t times);
void model_preset(uint32_t count);
void model_start(void *state);
void model_stop(void *state);
void model_encode(uint8_t *out, const void *state);
uint8_t model_status(void);
uint8_t model_select(const uint8_t *in, size_t length, uint8_t argc, uint8_t *out);

uint32_t model_read(uint32_t csr) {
    if (!model_is_there) {
        return 0;
    }
    return csr == BP_ESP32C3_MPCER ? mpcer : csr == BP_ESP32C3_MPCMR ? mpcmr : mpccr;
}

void model_write(uint32_t csr, uint32_t value) {
    if (csr == BP_ESP32C3_MPCER) {
        mpcer = value & 0x7ffu;
    } else if (csr == BP_ESP32C3_MPCMR) {
        mpcmr = value & 3u;
    } else {
        mpccr = value;
    }
}

/* After a reset, all events are counted, up to the end. */
void model_reset(void) {
    model_is_there = true;
    mpcer = 0x7ff;
    mpcmr = 3;
    mpccr = 12345;
    bp_collector_esp32c3.init();
}

/* So many times these happen, all of them in one cycle: it counts one. */
void model_event(uint32_t events, uint32_t times) {
    if ((mpcmr & 1u) == 0 || (mpcer & events) == 0) {
        return;
    }
    bool stops = (mpcmr & 2u) != 0 && times > UINT32_MAX - mpccr;
    mpccr = stops ? UINT32_MAX : mpccr + times;
}

void model_preset(uint32_t count) {
    mpccr = count;
}

void model_start(void *state) {
    bp_collector_esp32c3.start(state);
}

void model_stop(void *state) {
    bp_collector_esp32c3.stop(state);
}

void model_encode(uint8_t *out, const void *state) {
    bp_collector_esp32c3.encode(out, state);
}

uint8_t model_status(void) {
    bp_counter_t counter = {.name = NULL};
    bp_collector_esp32c3.counter(&counter, 0);
    return counter.status;
}

uint8_t model_select(const uint8_t *in, size_t length, uint8_t argc, uint8_t *out) {
    bp_call_t call = {
        .in = in, .in_end = in + length, .out = out, .out_end = out + 64, .argc = argc};
    bp_collector_esp32c3.select(&call);
    return (uint8_t)(call.err != 0 ? 0 : call.out - out);
}
