/* SPDX-License-Identifier: Apache-2.0 */
/* Guarded calls in machine mode: what bp_port_guard of a RISC-V board needs beside its addresses.
 *
 * A trap within a guarded call ends that call; every other one parks as without (crt0.S). mscratch
 * tells the two apart: it is 0 unless a call is guarded. The trap handler needs no stack, so that
 * an overflow of the only one there is ends the call too.
 *
 * What it does not end: a function that turns interrupts off in mstatus and hangs, or that changes
 * mtvec or mscratch. */

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
    const char *stack_guard_start; /* below the stack, denied by bp_arch_deny; NULL: nothing is */
    const char *stack_guard_end;
    uintptr_t mtime;
    uintptr_t mtimecmp; /* of the hart that runs this */
} bp_arch_guard_t;

/* Call body(context) and come back whatever happens in it; what happened is in `fault`.
 *
 * `limit` is in ticks of mtime, 0 for none. Interrupts other than the timer's are off meanwhile,
 * and the timer's comes when the limit is over, never before.
 *
 * pc is mepc. Behind a jump to what is no code (a call of a NULL pointer) that would tell nothing:
 * then it is ra - 2, which lies within the instruction that called, whether it is 2 or 4 bytes
 * long. If that is not within the code either, it is mepc after all. The same of bp_abort.h, whose
 * caller it is that counts. */
void bp_arch_guard(const bp_arch_guard_t *board, void (*body)(void *context), void *context,
                   uint64_t limit, bp_fault_t *fault);

/* A region as physical memory protection has it (RISC-V privileged manual, version 20211203, 3.7.1,
 * NAPOT): `size` is a power of 2, 8 or more, and `base` a multiple of it. */
static inline uintptr_t bp_arch_region(uintptr_t base, uintptr_t size) {
    return base >> 2 | ((size >> 3) - 1);
}

/* Deny two regions to machine mode too, until reset; all else stays allowed, as no other entry
 * matches (3.7.1, priority and matching logic). Takes the first two entries. */
static inline void bp_arch_deny(uintptr_t region0, uintptr_t region1) {
    enum { LOCKED = 0x80, NAPOT = 0x18 }; /* in pmp0cfg; no R, W or X beside them */
    __asm__ volatile("csrw pmpaddr0, %0\n"
                     "csrw pmpaddr1, %1\n"
                     "csrs pmpcfg0, %2\n"
                     :
                     : "r"(region0), "r"(region1), "r"((LOCKED | NAPOT) * 0x101)
                     : "memory");
}

#endif

#endif
