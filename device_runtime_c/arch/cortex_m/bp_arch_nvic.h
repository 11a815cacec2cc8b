/* SPDX-License-Identifier: Apache-2.0 */
/* The interrupt that ends a guarded call, for boards whose timers cannot raise NMI. It does not
 * catch a function that masks interrupts and hangs. port.c includes this header once, and before
 * that defines BP_TIMER_IRQ, the number of the interrupt. */

#ifndef BP_ARCH_NVIC_H
#define BP_ARCH_NVIC_H

#include <stdint.h>

#include "bp_arch_guard.h"

#if BP_CFG_GUARD

#ifndef BP_TIMER_IRQ
#define BP_TIMER_IRQ 0
#endif

/* Interrupt Set-Enable Registers (ARMv7-M ARM, DDI 0403, B3.4.4; ARMv6-M has only the first) and
 * Interrupt Priority Registers (B3.4.9): a lock masks the interrupt. */
static inline void bp_arch_nvic_init(void) {
#if BP_CFG_BASEPRI
    ((volatile uint8_t *)0xe000e400u)[BP_TIMER_IRQ] = BP_CFG_BASEPRI;
#endif
    ((volatile uint32_t *)0xe000e100u)[BP_TIMER_IRQ / 32] = 1u << BP_TIMER_IRQ % 32;
}

/* Its vector follows those of the core (startup.c). No other interrupt is enabled. */
typedef void bp_vector_t(void);
extern bp_vector_t *const bp_board_vectors[BP_TIMER_IRQ + 1];

__attribute__((section(".bp_vectors.board"), used))
bp_vector_t *const bp_board_vectors[BP_TIMER_IRQ + 1] = {
    [BP_TIMER_IRQ] = bp_guard_timer_handler,
};

#endif

#endif
