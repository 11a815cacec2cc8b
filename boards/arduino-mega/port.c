/* SPDX-License-Identifier: Apache-2.0 */
/* Arduino Mega 2560: ATmega2560 at 16 MHz; USART0 is connected to the USB bridge. */

#include "boardprof/bp_port.h"
#include "bp_avr.h"

/* DS40002211, table 22-12: 115.2 kbit/s at 16 MHz with U2X0 = 1; 2.1 % fast. */
#ifndef BP_BAUD_DIVISOR
#define BP_BAUD_DIVISOR 16
#endif

/* DS40002211, table 14-1, whose numbers begin at 1: TIMER1 OVF, USART RX, TIMER1 COMPA. */
BP_AVR_OVERFLOW(__vector_20)
BP_AVR_RECEIVE(__vector_25)
BP_AVR_COMPARE(__vector_17)

void bp_port_init(void) {
    bp_avr_init(BP_BAUD_DIVISOR);
}

const bp_port_clock_t bp_port_clock BP_ROM = {
    .source = bp_avr_clock_source,
    .ticks_hz = 16000000u,
    .ticks_bits = BP_AVR_TICKS_BITS,
    .ticks_in_sleep = true,
};
