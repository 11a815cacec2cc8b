/* SPDX-License-Identifier: Apache-2.0 */
/* The functions and collectors of the board in memory, and what they have done. */

#ifndef TEST_FIRMWARE_H
#define TEST_FIRMWARE_H

#include "boardprof/bp.h"

extern uint32_t test_counted;  /* calls of the packed function `count` */
extern uint32_t test_worked;   /* calls of the measured function `work` */
extern uint32_t test_recorded; /* bytes of the record that each set-up of `work` streams */
extern int test_check_after;   /* `work_check` fails with 42 once `work` ran so often; 0: never */

/* In the log: `f` work, add, scale or deep, `u` work's set-up, `c` its check; `A` and `B` start of
 * the collectors probe_a and probe_b, `a` and `b` their stop, `i` their init; `p` the packed
 * function `trap`. */

void test_firmware_reset(void);

#endif
