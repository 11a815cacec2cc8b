/* SPDX-License-Identifier: Apache-2.0 */
/* The FPGA's counters. */

#ifndef HAL_CLOCK_H
#define HAL_CLOCK_H

#define TIMER_HZ 25000000u
#define TIMER_BITS 32
#define SLOW_TIMER_HZ 100u

#endif
