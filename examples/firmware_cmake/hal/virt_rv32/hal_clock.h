/* SPDX-License-Identifier: Apache-2.0 */
/* mtime. It needs no second clock. */

#ifndef HAL_CLOCK_H
#define HAL_CLOCK_H

#define TIMER_HZ 10000000u
#define TIMER_BITS 64
#define SLOW_TIMER_HZ 0u /* there is no second clock */

#endif
