/* SPDX-License-Identifier: Apache-2.0 */
/* The agent as the first and only program of a virtual machine that runs Linux. Its line is the
 * kernel's console: boot text, frames and what functions print share one UART. */

#ifndef BP_GUEST_H
#define BP_GUEST_H

#include <stdbool.h>

/* Whether this process is the first one of its machine. */
bool bp_guest_is_one(void);

/* Mount what programs expect, and serve the console as an ordinary user, as people do on a board
 * with Linux. Such a user counts events in user mode alone (perf_event_open(2)). The saved user id
 * stays 0, so that a function may become root again. Returns an enum bp_posix_exit. */
int bp_guest_open(void);

#endif
