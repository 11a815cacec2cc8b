/* SPDX-License-Identifier: Apache-2.0 */
/* Sampling with TIMER1's compare match A. The counter runs on, so that the clock, the cycle counter
 * and the guard's limit, which use its overflow, stay as they are.
 *
 * The handler takes about a hundred bytes of the function's stack. A stack of its own would have to
 * be among the variables, where a stack pointer means that the function's has overflowed.
 * Registers: DS40002061, 16.11. */

#include "bp_avr.h"

#if BP_CFG_SAMPLING

#define BP_OCR1A BP_AVR_WORD(0x88)
#define BP_TIMSK1 BP_AVR_BYTE(0x6f)
#define BP_OCIE1A 2u /* also OCF1A in TIFR1 */

const bp_port_sampling_t bp_port_sampling BP_ROM = {
    .source = bp_avr_clock_source,
    .least = 256, /* from reading the counter to the function's next instruction */
    .most = UINT32_MAX,
    .usual = 1500,
};

/* Laps of the counter that must pass before the match counts. */
static volatile uint16_t bp_sample_laps;

static void bp_sample_arm(uint32_t ticks) {
    bp_sample_laps = (uint16_t)(ticks >> 16);
    BP_OCR1A = (uint16_t)(BP_AVR_TCNT1 + (uint16_t)ticks);
    BP_AVR_TIFR1 = BP_OCIE1A;
}

/* `saved` is the stack pointer of the handler, which points to a free byte below what it has saved.
 */
__attribute__((used, noinline)) static void bp_avr_sampled(const volatile uint8_t *saved) {
    enum { SAVED = 15 };
    if (bp_sample_laps != 0) {
        bp_sample_laps--;
        return;
    }
    const volatile uint8_t *byte = saved + SAVED;
    uint32_t words = 0;
#if defined(__AVR_3_BYTE_PC__)
    words = *++byte;
#endif
    words = words << 8 | *++byte;
    words = words << 8 | *++byte;
    bp_sample_arm(bp_sample_take(words * 2u, (uintptr_t)byte));
}

__attribute__((naked, used)) void bp_avr_compare(void) {
    /* clang-format off */
    __asm__ volatile("push r24\n\t"
                     "in  r24, 0x3f\n\t" /* SREG */
                     "push r24\n\t" "push r25\n\t" "push r0\n\t" "push r1\n\t" "push r18\n\t"
                     "push r19\n\t" "push r20\n\t" "push r21\n\t" "push r22\n\t" "push r23\n\t"
                     "push r26\n\t" "push r27\n\t" "push r30\n\t" "push r31\n\t"
                     "eor r1, r1\n\t" /* C code expects 0 here */
                     "in  r24, 0x3d\n\t" /* SPL */
                     "in  r25, 0x3e\n\t" /* SPH */
                     "%~call bp_avr_sampled\n\t"
                     "pop r31\n\t" "pop r30\n\t" "pop r27\n\t" "pop r26\n\t"
                     "pop r23\n\t" "pop r22\n\t" "pop r21\n\t" "pop r20\n\t" "pop r19\n\t"
                     "pop r18\n\t" "pop r1\n\t" "pop r0\n\t" "pop r25\n\t" "pop r24\n\t"
                     "out 0x3f, r24\n\t"
                     "pop r24\n\t"
                     "reti" ::);
    /* clang-format on */
}

void bp_port_sample_start(uint32_t ticks) {
    uint8_t status = BP_AVR_SREG;
    __asm__ volatile("cli" ::: "memory");
    bp_sample_arm(ticks);
    BP_TIMSK1 |= BP_OCIE1A;
    BP_AVR_SREG = status;
    __asm__ volatile("" ::: "memory");
}

void bp_port_sample_stop(void) {
    BP_TIMSK1 &= (uint8_t)~BP_OCIE1A;
}

#endif
