/* SPDX-License-Identifier: Apache-2.0 */
/* The stack that guarded functions run on: the agent's own or a separate one.
 *
 * A shared object, a guest in someone's process, uses a separate stack with fences at both ends. A
 * function that writes past its frame then hits a fence and not a frame of the process, and its
 * call ends with a fault. */

#ifndef BP_POSIX_STACK_H
#define BP_POSIX_STACK_H

#include <stdint.h>

/* Use a separate stack from now on, as large as that of the calling thread. Does nothing if there
 * is no memory for it, without BP_CFG_GUARD, or if the C library has no makecontext. */
void bp_posix_stack_begin(void);

/* Free the separate stack. */
void bp_posix_stack_end(void);

/* The lowest address of the stack that functions run on; 0: not known. */
uintptr_t bp_posix_stack_lowest(void);

/* Call body(context) on that stack. It may be left by siglongjmp instead of a return. */
void bp_posix_stack_call(void (*body)(void *context), void *context);

#endif
