/* SPDX-License-Identifier: Apache-2.0 */
/* TIMER1 as a cycle counter, for collectors/bp_timer16.c. */

#ifndef BP_ARCH_H
#define BP_ARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "bp_avr.h"

#define BP_ARCH_HAS_CYCLES32 0
#define BP_ARCH_CYCLES32_SOURCE ""

#define BP_ARCH_TIMER16_SOURCE "TIMER1"

/* Cycles of RET, and so of the empty function of a calibration (AVR Instruction Set Manual,
 * DS40002198). */
#if defined(__AVR_3_BYTE_PC__)
#define BP_ARCH_RETURN_CYCLES 5
#else
#define BP_ARCH_RETURN_CYCLES 4
#endif

/* A reading of the timer. */
typedef struct {
    uint32_t interrupts; /* how often its interrupt had run */
    uint16_t count;
    uint8_t flags; /* TIFR1, read after `count` */
} bp_arch_timer16_t;

/* Interrupts are masked during the four reads, so that they belong together; those that come run
 * afterwards. Always inlined: a call would be part of measured windows. */
__attribute__((always_inline)) static inline void bp_arch_timer16_read(bp_arch_timer16_t *out) {
    uint8_t status = BP_AVR_SREG;
    __asm__ volatile("cli" ::: "memory");
    out->count = BP_AVR_TCNT1;
    out->flags = BP_AVR_TIFR1;
    out->interrupts = bp_avr_overflows;
    BP_AVR_SREG = status;
    __asm__ volatile("" ::: "memory");
}

/* How often the timer had wrapped. The flag shows a wrap whose interrupt has not run yet. It was
 * read after the count, so the wrap may have come in between, and then the count is large. */
static inline uint32_t bp_arch_timer16_wraps(const bp_arch_timer16_t *at) {
    bool pending = (at->flags & BP_AVR_TOV1) != 0 && at->count < 0x8000u;
    return at->interrupts + (pending ? 1u : 0u);
}

/* Measure the cycles of one timer interrupt, from the core's response to the return: run the same
 * code with a wrap in it and without. Returns 0 if the timer or its interrupt does not run. */
uint16_t bp_arch_timer16_interrupt_cycles(void);

/* Mask all interrupts for a few instructions. */
static inline uintptr_t bp_arch_lock(void) {
    uint8_t before = BP_AVR_SREG;
    __asm__ volatile("cli" ::: "memory");
    return before;
}

static inline void bp_arch_unlock(uintptr_t before) {
    __asm__ volatile("" ::: "memory");
    BP_AVR_SREG = (uint8_t)before;
}

#endif
