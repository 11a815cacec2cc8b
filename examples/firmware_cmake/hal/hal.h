/* SPDX-License-Identifier: Apache-2.0 */
/* The hardware: a UART and free-running timers. */

#ifndef HAL_H
#define HAL_H

#include <stdbool.h>
#include <stdint.h>

#include "hal_clock.h"

/* Bring them up. */
void hal_init(void);

bool uart_has_byte(void);
uint8_t uart_get(void);
void uart_put(uint8_t byte);

/* The timer counts up at TIMER_HZ from any value, modulo 2^TIMER_BITS; the slow one, if there is
 * one, at SLOW_TIMER_HZ, modulo 2^32. */
uint64_t timer_now(void);
uint32_t slow_timer_now(void);

#endif
