/* SPDX-License-Identifier: Apache-2.0 */
/* Guarded calls in machine mode, for bp_port_guard of a RISC-V board.
 *
 * A trap within a guarded call ends that call; any other trap stops the board (crt0.S). mscratch
 * tells them apart: it is 0 outside of guarded calls. The trap handler needs no stack, so that an
 * overflow of the only stack ends the call, too.
 *
 * It cannot end a function that clears mstatus.MIE and hangs, or one that changes mtvec or
 * mscratch. */

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
    const char *stack_guard_start; /* below the stack, denied by bp_arch_deny; NULL: nothing is */
    const char *stack_guard_end;
    uintptr_t mtime;
    uintptr_t mtimecmp; /* of the hart that runs this */
} bp_arch_guard_t;

/* Call body(context) and return whatever happens in it; `fault` says what happened.
 *
 * `limit` is in ticks of mtime; 0: no limit. Only the timer's interrupt is enabled meanwhile, and
 * it comes when the limit is over, never before.
 *
 * fault->pc is mepc. After a jump to something that is not code (a call of a NULL pointer), and for
 * the instruction of bp_abort.h, it is ra - 2, which is in the calling instruction, whether that
 * has 2 or 4 bytes; if ra is not in the code either, it is mepc. */
void bp_arch_guard(const bp_arch_guard_t *board, void (*body)(void *context), void *context,
                   uint64_t limit, bp_fault_t *fault);

/* With BP_CFG_SAMPLING, bp_arch_guard.c defines bp_port_sample_start and bp_port_sample_stop. The
 * timer is shared: it interrupts for the next sample or when the limit is over. The samples are
 * collected on a stack of their own. */

/* A region in the format of physical memory protection, NAPOT (RISC-V privileged manual, version
 * 20211203, 3.7.1): `size` is a power of 2, 8 or more, and `base` a multiple of it. */
static inline uintptr_t bp_arch_region(uintptr_t base, uintptr_t size) {
    return base >> 2 | ((size >> 3) - 1);
}

/* Deny access to two regions until reset, in machine mode, too. Everything else stays allowed,
 * since no other entry matches (3.7.1, priority and matching logic). Uses the first two entries. */
static inline void bp_arch_deny(uintptr_t region0, uintptr_t region1) {
    enum { LOCKED = 0x80, NAPOT = 0x18 }; /* in pmp0cfg; without R, W and X */
    __asm__ volatile("csrw pmpaddr0, %0\n"
                     "csrw pmpaddr1, %1\n"
                     "csrs pmpcfg0, %2\n"
                     :
                     : "r"(region0), "r"(region1), "r"((LOCKED | NAPOT) * 0x101)
                     : "memory");
}

#endif

#endif
