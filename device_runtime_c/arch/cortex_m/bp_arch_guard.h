/* SPDX-License-Identifier: Apache-2.0 */
/* Guarded calls on a Cortex-M, for bp_port_guard of a board.
 *
 * The body of a guarded call runs on the process stack, which begins BP_HANDLER_STACK bytes below
 * the caller's place on the main stack. The handlers use the bytes between, so they have a good
 * stack even if the body destroys its own. A fault or the board's timer ends the guarded call; any
 * other fault stops the board (startup.c).
 *
 * Interrupts that the board enables stay on in guarded calls, and measured windows count them. The
 * agent enables none. */

#ifndef BP_ARCH_GUARD_H
#define BP_ARCH_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "boardprof/bp_config.h"
#include "boardprof/bp_port.h"

#if BP_CFG_GUARD

/* Addresses of the board. Both ranges are half-open. */
typedef struct {
    const char *text_start; /* all code */
    const char *text_end;
    const char *stack_guard_start; /* denied (bp_arch_mpu.h); an empty range if nothing is */
    const char *stack_guard_end;   /* the lowest byte of the stack, always */
    /* Acknowledge the timer's interrupt. It should be NMI, to catch a function that masks
     * interrupts, too. Otherwise it is SysTick or an interrupt whose vector is
     * bp_guard_timer_handler. Returns whether the limit is over; if not, the body continues. */
    bool (*is_over)(void);
    bool is_systick;
} bp_arch_guard_t;

/* Call body(context) and return whatever happens in it; `fault` says what happened. The port starts
 * its timer before and stops it afterwards.
 *
 * fault->pc is the program counter if that is in the code, with two exceptions:
 * - After a jump to something that is not code (a call of a NULL pointer), and for the instruction
 * of bp_abort.h, it is LR - 2, which is in the calling instruction, whether that has 2 or 4 bytes.
 * - After a stack overflow the core could not store the program counter. Then it is the return
 *   address nearest to the stack's end, less 2: in a recursion, the recursive call.
 *
 * ARMv6-M has no fault status registers (DDI 0419, B3.2.4): there the instruction at pc shows the
 * cause. */
void bp_arch_guard(const bp_arch_guard_t *board, void (*body)(void *context), void *context,
                   bp_fault_t *fault);

#if BP_CFG_SAMPLING
/* Samples are being taken. bp_port_sample_start and bp_port_sample_stop set it. A timer that only
 * samples raises SysTick's exception. One that also ends calls raises the same as for that, and
 * `is_over` then returns false. */
extern volatile bool bp_guard_is_sampled;
#endif

/* The handler for the timer's interrupt if that is not NMI. */
void bp_guard_timer_handler(void);

#endif

#endif
