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
    const char *stack_guard_start; /* denied by bp_arch_mpu_region; no bytes where nothing is */
    const char *stack_guard_end;   /* the lowest byte of the stack, always */
    /* The timer's interrupt has come: acknowledge it. It is NMI, so that a function that turns
     * interrupts off is caught too, or another one, whose vector is bp_guard_timer_handler.
     * Returns whether the limit is over; the body goes on when it is not. */
    bool (*is_over)(void);
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
 * ARMv6-M has no fault status registers (DDI 0419, B3.2.4): what is no breakpoint is UNKNOWN. */
void bp_arch_guard(const bp_arch_guard_t *board, void (*body)(void *context), void *context,
                   bp_fault_t *fault);

/* The vector of the timer's interrupt, if it is not NMI. */
void bp_guard_timer_handler(void);

#if defined(__ARM_ARCH_6M__) || defined(__ARM_ARCH_7M__) || defined(__ARM_ARCH_7EM__)

/* Memory protection, where there is one: PMSAv7 (DDI 0403, B3.5), and PMSAv6 (DDI 0419, B3.5),
 * whose regions have 256 bytes or more. */
#define BP_ARCH_MPU_CTRL (*(volatile uint32_t *)0xe000ed94u)
#define BP_ARCH_MPU_RNR (*(volatile uint32_t *)0xe000ed98u)
#define BP_ARCH_MPU_RBAR (*(volatile uint32_t *)0xe000ed9cu)
#define BP_ARCH_MPU_RASR (*(volatile uint32_t *)0xe000eda0u)

/* MPU_RASR (B3.5.9). The code is normal memory, write-through. */
enum {
    BP_ARCH_MPU_NOTHING = 1u << 28,              /* XN, and AP 0: no access */
    BP_ARCH_MPU_READ_ONLY = 6u << 24 | 1u << 17, /* AP 6, and C */
};

/* Set a region of 2^size_log2 bytes (32 or more) at a multiple of that size. Where regions overlap,
 * the greatest number counts. */
static inline void bp_arch_mpu_region(uint32_t number, uintptr_t base, uint32_t size_log2,
                                      uint32_t access) {
    BP_ARCH_MPU_RNR = number;
    BP_ARCH_MPU_RBAR = base;
    BP_ARCH_MPU_RASR = access | (size_log2 - 1) << 1 | 1u; /* ENABLE */
}

/* Let the regions count; what lies in none stays as the architecture's default map has it. The
 * handlers of HardFault and NMI are above the law. */
static inline void bp_arch_mpu_enable(void) {
    BP_ARCH_MPU_CTRL = 1u << 2 | 1u; /* PRIVDEFENA, ENABLE */
    __asm__ volatile("dsb\n isb" ::: "memory");
}

#endif

#endif

#endif
