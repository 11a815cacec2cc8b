/* SPDX-License-Identifier: Apache-2.0 */
/* Guarded calls on every Cortex-M: what bp_port_guard of a board needs beside its addresses.
 *
 * The body of a guarded call runs on the process stack, which is the stack that its caller is on, a
 * little further down. So the handlers keep a good stack of their own, the piece between, whatever
 * becomes of the body's. A fault, or the board's timer, ends the guarded call; every other one
 * parks as without (startup.c).
 *
 * Interrupts: whatever the board enables by itself stays on in guarded calls, and would be counted
 * in measured windows. The agent enables none. */

#ifndef BP_ARCH_GUARD_H
#define BP_ARCH_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "boardprof/bp_config.h"
#include "boardprof/bp_port.h"

#if BP_CFG_GUARD

/* Where things stand on the board. The two ranges are half-open. */
typedef struct {
    const char *text_start; /* all code */
    const char *text_end;
    const char *stack_guard_start; /* denied (bp_arch_mpu.h); no bytes where nothing is */
    const char *stack_guard_end;   /* the lowest byte of the stack, always */
    /* The timer's interrupt has come: acknowledge it. It is NMI, so that a function that turns
     * interrupts off is caught too, or SysTick, or another one, whose vector is
     * bp_guard_timer_handler.
     * Returns whether the limit is over; the body goes on when it is not. */
    bool (*is_over)(void);
    bool is_systick;
} bp_arch_guard_t;

/* Call body(context) and come back whatever happens in it; what happened is in `fault`. The port
 * starts its timer before, and stops it after.
 *
 * pc is where the core stood, if that is within the code. Two cases have something else:
 * - Behind a jump to what is no code (a call of a NULL pointer), and at what bp_abort.h ends a call
 *   with, it is LR - 2, which lies within the instruction that called, be it 2 or 4 bytes long.
 * - Behind a stack overflow the core could not store where it stood. Then it is the same of the
 *   return address that lies nearest to the stack's end: in a recursion, the call that recurs.
 *
 * ARMv6-M has no fault status registers (DDI 0419, B3.2.4): there the instruction at pc tells. */
void bp_arch_guard(const bp_arch_guard_t *board, void (*body)(void *context), void *context,
                   bp_fault_t *fault);

/* The vector of the timer's interrupt, if it is not NMI. */
void bp_guard_timer_handler(void);

#endif

#endif
