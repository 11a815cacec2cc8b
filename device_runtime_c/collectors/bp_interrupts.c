/* SPDX-License-Identifier: Apache-2.0 */
/* Interrupts and switches to other tasks, as counted by the firmware's hooks (bp_isr_enter and the
 * others in bp.h). With this collector, windows leave out what runs in them. */

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"

#if BP_CFG_INTERRUPTS < 2
#error "the collector interrupts needs BP_CFG_INTERRUPTS=2"
#endif

static const char bp_interrupts_name[] BP_ROM = "interrupts";
static const char bp_switches_name[] BP_ROM = "context-switches";
static const char bp_interrupt_ticks_name[] BP_ROM = "interrupt-ticks";
static const char bp_isr_source[] BP_ROM = "bp_isr_enter";
static const char bp_task_source[] BP_ROM = "bp_task_switched";

/* There is nothing to prove: if no interrupt comes, 0 is the right count. */
static void bp_interrupts_init(void) {
}

/* Masked, since each count has two words or more. */
static void bp_interrupts_start(void *state) {
    bp_interrupts_t *s = state;
    uintptr_t before = bp_port_mask();
    s->interrupts_start = bp_away.interrupts;
    s->switches_start = bp_away.switches;
    s->ticks_start = bp_away.ticks;
    bp_port_unmask(before);
}

static void bp_interrupts_stop(void *state) {
    bp_interrupts_t *s = state;
    uintptr_t before = bp_port_mask();
    s->interrupts_stop = bp_away.interrupts;
    s->switches_stop = bp_away.switches;
    s->ticks_stop = bp_away.ticks;
    bp_port_unmask(before);
}

static void bp_interrupts_encode(uint8_t *out, const void *state) {
    bp_interrupts_put(out, state);
}

static void bp_interrupts_counter(bp_counter_t *out, uint8_t index) {
    static const char *const names[] = {bp_interrupts_name, bp_switches_name,
                                        bp_interrupt_ticks_name};
    out->name = names[index];
    out->source = index == 1 ? bp_task_source : bp_isr_source;
    out->bits = 64;
    out->counts_in_sleep = true;
    out->status = BP_COUNTER_OK;
}

const bp_collector_t bp_collector_interrupts BP_ROM = {
    .name = bp_interrupts_name,
    .init = bp_interrupts_init,
    .start = bp_interrupts_start,
    .stop = bp_interrupts_stop,
    .encode = bp_interrupts_encode,
    .counter = bp_interrupts_counter,
    .layout_crc = BP_INTERRUPTS_CRC,
    .schema_id = BP_INTERRUPTS_SCHEMA,
    .body_length = BP_INTERRUPTS_LEN,
    .version = BP_INTERRUPTS_VERSION,
    .state_bytes = sizeof(bp_interrupts_t),
    .counters = 3,
};
