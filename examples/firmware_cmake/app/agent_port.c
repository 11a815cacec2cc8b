/* SPDX-License-Identifier: Apache-2.0 */
/* What boardprof's agent needs (bp_port.h), built on what the firmware already has. */

#include "boardprof/bp_port.h"
#include "hal.h"

static uint32_t boots __attribute__((section(".noinit")));

void bp_port_init(void) {
    boots++;
}

size_t bp_port_read(uint8_t *buffer, size_t capacity) {
    size_t length = 0;
    while (length < capacity && uart_has_byte()) {
        buffer[length++] = uart_get();
    }
    return length;
}

void bp_port_write(const uint8_t *buffer, size_t length) {
    while (length--) {
        uart_put(*buffer++);
    }
}

void bp_port_idle(void) {
}

const bp_port_clock_t bp_port_clock = {
    .source = "timer_now",
    .ticks_hz = TIMER_HZ,
    .coarse_hz = SLOW_TIMER_HZ,
    .ticks_bits = TIMER_BITS,
    .ticks_in_sleep = true,
};

uint64_t bp_port_ticks(void) {
    return timer_now();
}

uint32_t bp_port_coarse(void) {
    return slow_timer_now();
}

uint8_t bp_port_reset_cause(void) {
    return BP_RESET_UNKNOWN;
}

/* The factor (2^32 / golden ratio) spreads the count over all bits. */
uint32_t bp_port_boot_id(void) {
    return boots * 0x9e3779b1u ^ (uint32_t)timer_now();
}

#if BP_CFG_STACK

extern uint8_t stack_limit[]; /* link.ld: after all variables; nothing grows into it from below */

uint8_t *bp_port_stack_limit(void) {
    return stack_limit;
}

#endif
