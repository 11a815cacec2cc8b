/* SPDX-License-Identifier: Apache-2.0 */
/* What the two halves of a guarded call share: assembler (bp_arch_guard_enter.c) and C. */

#ifndef BP_ARCH_GUARD_ENTER_H
#define BP_ARCH_GUARD_ENTER_H

#include <stdbool.h>
#include <stdint.h>

#include "boardprof/bp_config.h"

/* Bytes between the main stack and the body's, 2040 at most and a multiple of 8. Handlers that have
 * hooks are a firmware's, and do more than those of the agent. */
#if BP_CFG_INTERRUPTS > 1
#define BP_HANDLER_STACK 1024
#else
#define BP_HANDLER_STACK 248
#endif

/* What the core stores when it takes an exception (B1.5.6). */
typedef struct {
    uint32_t r0, r1, r2, r3, r12, lr, pc, xpsr;
} bp_stacked_t;

/* Call body(context) on the process stack, which begins BP_HANDLER_STACK below the main one. */
void bp_guard_enter(void (*body)(void *context), void *context);

/* Where the body returns to, and where the handler makes the core go on: no function. */
void bp_guard_leave(void);

/* Take an exception, the timer's or another, that came with `stacked` on the process stack and the
 * main stack at `main_stack`, right below which the entry has kept r4 to r7 and LR. Returns
 * EXC_RETURN. */
uint32_t bp_guard_exception(const bp_stacked_t *stacked, uint32_t exc_return, char *main_stack,
                            bool timer);

/* The cause, and in *address what was touched, on a core without fault status registers. `stacked`
 * is NULL when the core could not store it; `low` is r0 to r7. */
uint8_t bp_guard_explain_v6m(const bp_stacked_t *stacked, bool in_code, const uint32_t low[8],
                             uint64_t *address);

#endif
