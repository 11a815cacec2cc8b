/* SPDX-License-Identifier: Apache-2.0 */
/* Translates a signal to the fault of a guarded call. For signal handlers. */

#ifndef BP_POSIX_FAULT_H
#define BP_POSIX_FAULT_H

#include <signal.h>
#include <stdint.h>

#include "boardprof/bp_port.h"

#if BP_CFG_GUARD

/* Cause and address for signal `number`: a fault of the CPU, abort, or else a timeout. `stack_end`
 * is the lowest address of the thread's stack. */
bp_fault_t bp_posix_fault(int number, const siginfo_t *info, const void *context,
                          uintptr_t stack_end);

/* The address of the instruction that trapped. On x86, pc is already after a breakpoint. */
uintptr_t bp_posix_trapped_at(int number, const siginfo_t *info, const void *context);

#endif

#endif
