/* SPDX-License-Identifier: Apache-2.0 */
/* Guarded calls at EL1: what bp_port_guard of an AArch64 board needs beside its addresses.
 *
 * An exception within a guarded call ends that call; every other one parks as without (crt0.S).
 * TPIDR_EL1 tells the two apart: it is 0 unless a call is guarded. The handler needs no stack, so
 * that an overflow of the only one there is ends the call too.
 *
 * What it does not end: a function that masks IRQ and hangs, or that changes VBAR_EL1, TPIDR_EL1 or
 * the MMU's tables. */

#ifndef BP_ARCH_GUARD_H
#define BP_ARCH_GUARD_H

#include <stdint.h>

#include "boardprof/bp_config.h"
#include "boardprof/bp_port.h"

#if BP_CFG_GUARD

/* Where things stand on the board. The two ranges are half-open. */
typedef struct {
    const char *text_start; /* all code */
    const char *text_end;
    const char *stack_guard_start; /* below the stack, not mapped (bp_arch_mmu.h) */
    const char *stack_guard_end;
} bp_arch_guard_t;

/* Call body(context) and come back whatever happens in it; what happened is in `fault`.
 *
 * `limit` is in ticks of the virtual timer, 0 for none. The port has let its interrupt, and no
 * other, through to the core (bp_arch_gic.h); it comes when the limit is over, never before.
 *
 * pc is ELR_EL1. Behind a jump to what is no code (a call of a NULL pointer) that would tell
 * nothing: then it is x30 - 4, the instruction that called. If that is not within the code either,
 * it is ELR_EL1 after all. */
void bp_arch_guard(const bp_arch_guard_t *board, void (*body)(void *context), void *context,
                   uint64_t limit, bp_fault_t *fault);

#endif

#endif
