/* SPDX-License-Identifier: Apache-2.0 */
/* TIMER1: counts cycles, undivided, and how often it has wrapped. */

#include "bp_arch.h"
#include "bp_avr.h"
#include "bp_avr_timer.h"

volatile uint32_t bp_avr_overflows;

#define BP_TCCR1A BP_AVR_BYTE(0x80)
#define BP_TCCR1B BP_AVR_BYTE(0x81)

static void bp_timer_set(void) {
    BP_TCCR1A = 0; /* normal mode, 0..65535; a bootloader may have left another */
    BP_TCCR1B = 1; /* the core's clock, undivided */
    BP_AVR_TIMSK1 = BP_AVR_TOV1;
}

void bp_avr_timer_init(void) {
    BP_AVR_TIFR1 = BP_AVR_TOV1;
    bp_timer_set();
}

bool bp_port_clock_intact(void) {
    bool intact = BP_TCCR1A == 0 && BP_TCCR1B == 1 && BP_AVR_TIMSK1 == BP_AVR_TOV1;
    bp_timer_set();
    bp_port_write(NULL, 0); /* what the function has printed goes now, and not in a later window */
    return intact;
}

const char bp_avr_clock_source[] BP_ROM = "TIMER1";

uint64_t bp_port_ticks(void) {
    bp_arch_timer16_t now;
    bp_arch_timer16_read(&now);
    return (uint64_t)bp_arch_timer16_wraps(&now) << 16 | now.count;
}

uint32_t bp_port_coarse(void) {
    return 0;
}

/* Cycles of a fixed piece of code. */
__attribute__((noinline)) static uint16_t bp_stretch(void) {
    uint16_t before = BP_AVR_TCNT1;
    for (uint8_t i = 0; i < 100; i++) {
        __asm__ volatile("nop");
    }
    return BP_AVR_TCNT1 - before;
}

uint16_t bp_arch_timer16_interrupt_cycles(void) {
    uint16_t tries = 0;
    while (BP_AVR_TCNT1 < 0xff00u && --tries != 0) { /* a lap takes a tenth of these tries */
    }
    uint8_t receiver = BP_AVR_UCSR0B;
    BP_AVR_UCSR0B = receiver & (uint8_t)~BP_AVR_RXCIE0;
    uint16_t with = bp_stretch();
    uint16_t without = bp_stretch();
    BP_AVR_UCSR0B = receiver;
    return with > without ? with - without : 0;
}
