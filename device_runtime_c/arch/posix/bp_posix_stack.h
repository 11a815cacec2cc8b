/* SPDX-License-Identifier: Apache-2.0 */
/* The stack that guarded functions run on: the agent's own, or one apart.
 *
 * A guest in someone's process takes one apart, with fences at both ends. A function that writes
 * past its frame then breaks what lies above it there, and no frame of the process: its call ends
 * with a fault that the guard can return from. */

#ifndef BP_POSIX_STACK_H
#define BP_POSIX_STACK_H

#include <stdint.h>

/* From now on functions run apart, on as much as the calling thread's stack has. Without memory for
 * that, without guard, or in a C library without contexts, they go on where they were. */
void bp_posix_stack_begin(void);

/* Give it back. */
void bp_posix_stack_end(void);

/* The lowest address of what functions run on; 0: not known. */
uintptr_t bp_posix_stack_lowest(void);

/* body(context), there. A jump out of it may take the place of its return. */
void bp_posix_stack_call(void (*body)(void *context), void *context);

#endif
