/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the two halves of a guarded call: assembler (bp_arch_guard_enter.c) and C. */

#ifndef BP_ARCH_GUARD_ENTER_H
#define BP_ARCH_GUARD_ENTER_H

#include <stdbool.h>
#include <stdint.h>

#include "boardprof/bp_config.h"

/* Bytes between the main stack and the body's stack, 2040 at most and a multiple of 8. The handlers
 * of a firmware (those with hooks) need more than the agent's own. */
#if BP_CFG_INTERRUPTS > 1
#define BP_HANDLER_STACK 1024
#elif BP_CFG_SAMPLING
#define BP_HANDLER_STACK 504 /* NMI may interrupt the handler of a sample */
#else
#define BP_HANDLER_STACK 248
#endif

/* What the core stacks when it takes an exception (ARMv7-M ARM, DDI 0403, B1.5.6). */
typedef struct {
    uint32_t r0, r1, r2, r3, r12, lr, pc, xpsr;
} bp_stacked_t;

/* Call body(context) on the process stack, which begins BP_HANDLER_STACK below the main one. */
void bp_guard_enter(void (*body)(void *context), void *context);

/* Labels, not functions: where the body returns to, and where the handler makes the core continue.
 */
void bp_guard_leave(void);

/* Handle an exception, of the timer or another. `stacked` is on the process stack; the entry code
 * has saved r4 to r7 and LR right below `main_stack`. Returns EXC_RETURN. */
uint32_t bp_guard_exception(const bp_stacked_t *stacked, uint32_t exc_return, char *main_stack,
                            bool timer);

/* The cause of a fault, and the address that was accessed at `address`, on a core without fault
 * status registers. `stacked` is NULL if the core could not store it; `low` is r0 to r7. */
uint8_t bp_guard_explain_v6m(const bp_stacked_t *stacked, bool in_code, const uint32_t low[8],
                             uint64_t *address);

#endif
