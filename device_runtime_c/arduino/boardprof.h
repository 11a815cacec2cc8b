/* SPDX-License-Identifier: Apache-2.0 */
/* For sketches: call boardprof_begin() in setup(), and boardprof_poll() in loop(). */

#ifndef BOARDPROF_H
#define BOARDPROF_H

#include "boardprof/bp.h"
#include "boardprof/bp_function.h"
#include "boardprof/bp_port.h"

/* Start Serial at 115200 baud, TIMER1, and the agent. */
static inline void boardprof_begin(void) {
    bp_port_init();
    bp_init();
}

/* Answer the host. Returns at once if it is silent. */
static inline void boardprof_poll(void) {
    (void)bp_poll();
}

#endif
