/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder share, and ports need not see. */

#ifndef BP_AVR_TIMER_H
#define BP_AVR_TIMER_H

#include "bp_avr.h"

/* UCSR0B: interrupt for each byte that has come. */
#define BP_AVR_RXCIE0 0x80u

void bp_avr_timer_init(void);

/* The lowest address that the stack may grow to: above all variables, and above the heap if malloc
 * has begun one. The canary stands there. */
uint8_t *bp_avr_bottom(void);

#endif
