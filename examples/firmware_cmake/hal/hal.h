/* SPDX-License-Identifier: Apache-2.0 */
/* The hardware: a UART and free-running timers. */

#ifndef HAL_H
#define HAL_H

#include <stdbool.h>
#include <stdint.h>

#include "hal_clock.h"

/* Initialise them. */
void hal_init(void);

bool uart_has_byte(void);
uint8_t uart_get(void);
void uart_put(uint8_t byte);

/* The timer counts up at TIMER_HZ from any value, modulo 2^TIMER_BITS. The slow timer, if there is
 * one, counts at SLOW_TIMER_HZ, modulo 2^32. */
uint64_t timer_now(void);
uint32_t slow_timer_now(void);

#endif
