/* SPDX-License-Identifier: Apache-2.0 */
/* Guarded calls (bp_port_guard) for programs of a POSIX system, by signals.
 *
 * One thread of an image calls guarded, the agent's. Faults of other threads, and of this one while
 * nothing is guarded, go where they went before. In a program of its own the signal handlers stay;
 * in a shared object, which is a guest in someone's process, they stand only during guarded calls.
 *
 * A trap is contained, not what a function did before: a stray write stays written, and a function
 * that is stopped keeps the locks that it holds, those of malloc and stdio included. */

#ifndef BP_POSIX_GUARD_H
#define BP_POSIX_GUARD_H

/* The agent's thread is about to end: give back its timer. */
void bp_posix_guard_end(void);

/* `caller` is about to end the process. Within a guarded call that ends with BP_FAULT_ABORT, and
 * this does not return. */
void bp_posix_exit_guarded(const void *caller);

#endif
