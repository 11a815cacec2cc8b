/* SPDX-License-Identifier: Apache-2.0 */
/* Guarded calls (bp_port_guard) for programs of a POSIX system, by signals.
 *
 * Only the agent's thread makes guarded calls. Faults of other threads, and of this one outside of
 * guarded calls, go to the handlers that were there before. A program keeps the signal handlers; a
 * shared object, a guest in someone's process, installs them only during guarded calls.
 *
 * A guard contains the trap, and puts back what the function did to the process
 * (bp_posix_process.h). Anything else stays: a stray write stays written, and a function that is
 * stopped keeps its locks, including those of malloc and stdio. */

#ifndef BP_POSIX_GUARD_H
#define BP_POSIX_GUARD_H

#include <stdbool.h>

/* Delete the timer: the agent's thread is about to end. */
void bp_posix_guard_end(void);

/* Whether this is the agent's thread in a guarded call. */
bool bp_posix_is_guarded(void);

/* Call it when `caller` is about to end the process. In a guarded call it does not return: the call
 * ends with BP_FAULT_ABORT. */
void bp_posix_exit_guarded(const void *caller);

#endif
