/* SPDX-License-Identifier: Apache-2.0 */
/* Executed instructions, where the chip is an emulated one (sim/main.mjs). An RP2040 cannot count
 * them: there the counter is absent.
 *
 * Software asks the testbench manager what it runs on (RP2040 data sheet, 2.22). PLATFORM has a bit
 * for a chip. The emulator sets none, and has the counter at offset 0x10; reading its low word
 * keeps the high one. RESETS: 2.14. */

#include "boardprof/bp.h"
#include "emulated_instructions_wire.h"

#define BP_RESETS_CLEAR (*(volatile uint32_t *)0x4000f000u)
#define BP_RESET_DONE (*(volatile uint32_t *)0x4000c008u)
#define BP_RESET_TBMAN (1u << 20)
#define BP_TBMAN_PLATFORM (*(volatile uint32_t *)0x4006c000u)
#define BP_TBMAN_ASIC (1u << 0)
#define BP_TBMAN_LOW (*(volatile uint32_t *)0x4006c010u)
#define BP_TBMAN_HIGH (*(volatile uint32_t *)0x4006c014u)

static const char bp_emulated_instructions_name[] BP_ROM = "emulated_instructions";
static const char bp_emulated_instructions_counts[] BP_ROM = "instructions";
static const char bp_emulated_instructions_source[] BP_ROM = "the emulator";

static uint8_t bp_emulated_instructions_status;

static uint64_t bp_emulated_instructions_read(void) {
    uint32_t low = BP_TBMAN_LOW;
    return (uint64_t)BP_TBMAN_HIGH << 32 | low;
}

static void bp_emulated_instructions_start(void *state) {
    bp_emulated_instructions_t *s = state;
    s->start = bp_emulated_instructions_read();
}

static void bp_emulated_instructions_stop(void *state) {
    bp_emulated_instructions_t *s = state;
    s->stop = bp_emulated_instructions_read();
}

static void bp_emulated_instructions_init(void) {
    BP_RESETS_CLEAR = BP_RESET_TBMAN;
    while ((BP_RESET_DONE & BP_RESET_TBMAN) == 0) { /* every RP2040 answers */
    }
    bp_emulated_instructions_status = BP_COUNTER_ABSENT;
    if ((BP_TBMAN_PLATFORM & BP_TBMAN_ASIC) == 0) {
        uint64_t before = bp_emulated_instructions_read();
        bool counts = bp_emulated_instructions_read() != before;
        bp_emulated_instructions_status = counts ? BP_COUNTER_OK : BP_COUNTER_STUCK;
    }
}

static void bp_emulated_instructions_encode(uint8_t *out, const void *state) {
    bp_emulated_instructions_put(out, state);
}

static void bp_emulated_instructions_counter(bp_counter_t *out, uint8_t index) {
    (void)index;
    out->name = bp_emulated_instructions_counts;
    out->source = bp_emulated_instructions_source;
    out->bits = 64;
    out->status = bp_emulated_instructions_status;
}

extern const bp_collector_t bp_collector_emulated_instructions;
const bp_collector_t bp_collector_emulated_instructions BP_ROM = {
    .name = bp_emulated_instructions_name,
    .init = bp_emulated_instructions_init,
    .start = bp_emulated_instructions_start,
    .stop = bp_emulated_instructions_stop,
    .encode = bp_emulated_instructions_encode,
    .counter = bp_emulated_instructions_counter,
#if BP_CFG_INTERRUPTS > 1
    .skip = bp_emulated_instructions_skip,
#endif
    .layout_crc = BP_EMULATED_INSTRUCTIONS_CRC,
    .schema_id = BP_EMULATED_INSTRUCTIONS_SCHEMA,
    .body_length = BP_EMULATED_INSTRUCTIONS_LEN,
    .version = BP_EMULATED_INSTRUCTIONS_VERSION,
    .state_bytes = sizeof(bp_emulated_instructions_t),
    .counters = 1,
};
