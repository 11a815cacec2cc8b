/* SPDX-License-Identifier: Apache-2.0 */
/* What a signal means as the fault of a guarded call. For signal handlers. */

#ifndef BP_POSIX_FAULT_H
#define BP_POSIX_FAULT_H

#include <signal.h>
#include <stdint.h>

#include "boardprof/bp_port.h"

#if BP_CFG_GUARD

/* Cause and address of signal `number`; one that is none of the CPU's, nor abort's, is a time-out.
 * `stack_end` is the lowest address of the thread's stack. */
bp_fault_t bp_posix_fault(int number, const siginfo_t *info, const void *context,
                          uintptr_t stack_end);

/* The instruction's own address: on x86 the CPU has gone past a breakpoint by then. */
uintptr_t bp_posix_trapped_at(int number, const siginfo_t *info, const void *context);

#endif

#endif
