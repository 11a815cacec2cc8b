/* SPDX-License-Identifier: Apache-2.0 */
/* Guarded calls at EL1, for bp_port_guard of an AArch64 board.
 *
 * An exception within a guarded call ends that call; any other one stops the board (crt0.S).
 * TPIDR_EL1 tells them apart: it is 0 outside of guarded calls. The handler needs no stack, so that
 * an overflow of the only stack ends the call, too.
 *
 * It cannot end a function that masks IRQ and hangs, or one that changes VBAR_EL1, TPIDR_EL1 or the
 * MMU's tables. */

#ifndef BP_ARCH_GUARD_H
#define BP_ARCH_GUARD_H

#include <stdint.h>

#include "boardprof/bp_config.h"
#include "boardprof/bp_port.h"

#if BP_CFG_GUARD

/* Addresses of the board. Both ranges are half-open. */
typedef struct {
    const char *text_start; /* all code */
    const char *text_end;
    const char *stack_guard_start; /* below the stack, not mapped (bp_arch_mmu.h) */
    const char *stack_guard_end;
} bp_arch_guard_t;

/* Call body(context) and return whatever happens in it; `fault` says what happened.
 *
 * `limit` is in ticks of the virtual timer; 0: no limit. The port has enabled only its interrupt
 * (bp_arch_gic.h), which comes when the limit is over, never before.
 *
 * fault->pc is ELR_EL1. After a jump to something that is not code (a call of a NULL pointer) it is
 * x30 - 4, the calling instruction; if that is not in the code either, it is ELR_EL1. */
void bp_arch_guard(const bp_arch_guard_t *board, void (*body)(void *context), void *context,
                   uint64_t limit, bp_fault_t *fault);

/* With BP_CFG_SAMPLING, bp_arch_guard.c defines bp_port_sample_start and bp_port_sample_stop. The
 * timer is shared: it interrupts for the next sample or when the limit is over. The samples are
 * collected on a stack of their own. */

#endif

#endif
