/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of this folder; not for ports. */

#ifndef BP_AVR_TIMER_H
#define BP_AVR_TIMER_H

#include "bp_avr.h"

/* UCSR0B: interrupt for each received byte. */
#define BP_AVR_RXCIE0 0x80u

void bp_avr_timer_init(void);

/* TIMER1's interrupt is off until the guarded call ends (bp_port_stack_quiet). */
extern bool bp_avr_is_quiet;

/* The lowest address that the stack may grow to, above all variables and the heap of malloc. The
 * canary is there. From bp_stack.ld. */
extern uint8_t bp_stack_guard_start[];

#endif
