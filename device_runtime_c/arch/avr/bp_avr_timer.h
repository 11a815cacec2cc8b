/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder share, and ports need not see. */

#ifndef BP_AVR_TIMER_H
#define BP_AVR_TIMER_H

#include "bp_avr.h"

/* UCSR0B: interrupt for each byte that has come. */
#define BP_AVR_RXCIE0 0x80u

void bp_avr_timer_init(void);

#endif
