/* SPDX-License-Identifier: Apache-2.0 */
/* TIMER1 as clock and cycle counter, and what else depends on the core. Arduino's own TIMER0
 * interrupts every 1,024 us for millis(); a window may contain that. */

#include <avr/interrupt.h>

#include "boardprof/bp_port.h"
#include "bp_avr.h"
#include "bp_avr_timer.h"

BP_AVR_OVERFLOW(TIMER1_OVF_vect)

void bp_arduino_init(void);
void bp_arduino_init(void) {
    bp_avr_timer_init();
}

const bp_port_clock_t bp_port_clock BP_ROM = {
    .source = bp_avr_clock_source,
    .ticks_hz = F_CPU,
    .ticks_bits = BP_AVR_TICKS_BITS,
    .ticks_in_sleep = true,
};

#if BP_CFG_GUARD || BP_CFG_SAMPLING
#error "BP_CFG_GUARD and BP_CFG_SAMPLING need a link script, which an Arduino library cannot have"
#endif

#if BP_CFG_INTERRUPTS

const bp_port_interrupts_t bp_port_interrupts BP_ROM = {
    .timer_us = 1024,
    .longest_us = BP_AVR_LONGEST_US,
    .masks_guard = true,
};

uintptr_t bp_port_mask(void) {
    uint8_t before = SREG;
    cli();
    return before;
}

void bp_port_unmask(uintptr_t before) {
    SREG = (uint8_t)before;
}

#endif

#if BP_CFG_STACK

/* Of avr-libc: where its heap begins, and ends for now. */
extern uint8_t __heap_start[];
extern uint8_t *__brkval;

uint8_t *bp_port_stack_limit(void) {
    return __brkval != NULL ? __brkval : __heap_start;
}

#endif
