/* SPDX-License-Identifier: Apache-2.0 */
/* Vector table and reset handler for every Cortex-M; no CMSIS.
 *
 * The board's link.ld, usually through bp_sections.ld, places .bp_vectors first in the memory that
 * the core boots from. It defines these symbols, all aligned to 4 bytes: bp_stack_top (to 8),
 * bp_data_load, bp_data_start, bp_data_end, bp_bss_start, bp_bss_end. */

#include <stdint.h>

extern uint32_t bp_stack_top[];
extern const uint32_t bp_data_load[];
extern uint32_t bp_data_start[], bp_data_end[], bp_bss_start[], bp_bss_end[];

typedef void bp_handler_t(void);

int main(void);
bp_handler_t bp_reset_handler;
bp_handler_t bp_fault_handler;
bp_handler_t bp_nmi_handler;

/* Not inlined into the reset handler, so that a debugger shows its name. */
static __attribute__((noinline)) void bp_park(void) {
    for (;;) {
    }
}

/* All faults and unexpected exceptions. Weak, so that a program can define its own handler. */
__attribute__((weak)) void bp_fault_handler(void) {
    bp_park();
}

/* The same for NMI. */
__attribute__((weak)) void bp_nmi_handler(void) {
    bp_park();
}

#if defined(__ARM_FP)
/* Floating-point instructions fault until CP10 and CP11 are enabled (ARMv7-M ARM, DDI 0403,
 * B3.2.20). */
static void bp_fpu_init(void) {
    *(volatile uint32_t *)0xe000ed88u |= 0xfu << 20; /* CPACR */
    __asm__ volatile("dsb\n isb" ::: "memory");
}
#else
static void bp_fpu_init(void) {
}
#endif

void bp_reset_handler(void) {
    bp_fpu_init();
    const uint32_t *from = bp_data_load;
    for (uint32_t *to = bp_data_start; to < bp_data_end; to++) {
        *to = *from++;
    }
    for (uint32_t *to = bp_bss_start; to < bp_bss_end; to++) {
        *to = 0;
    }
    (void)main();
    bp_park();
}

/* The core loads the stack pointer and then the program counter from here (DDI 0403, B1.5.5). Only
 * the core's own exceptions have a vector, since the agent enables no interrupt. A board that
 * enables one puts the vectors from 16 on into a section .bp_vectors.board, which its link.ld
 * places right after this one. On ARMv6-M, all faults are HardFault and vectors 4 to 6 are reserved
 * (DDI 0419, B1.5.2). */
typedef struct {
    uint32_t *stack_top;
    bp_handler_t *reset;
    bp_handler_t *nmi;
    bp_handler_t *faults[4]; /* HardFault, MemManage, BusFault, UsageFault */
    bp_handler_t *others[9]; /* 11 SVCall, 12 DebugMonitor, 14 PendSV, 15 SysTick; reserved */
} bp_vectors_t;

extern const bp_vectors_t bp_vectors;

__attribute__((section(".bp_vectors"), used)) const bp_vectors_t bp_vectors = {
    .stack_top = bp_stack_top,
    .reset = bp_reset_handler,
    .nmi = bp_nmi_handler,
    .faults = {bp_fault_handler, bp_fault_handler, bp_fault_handler, bp_fault_handler},
    .others = {bp_fault_handler, bp_fault_handler, bp_fault_handler, bp_fault_handler,
               bp_fault_handler, bp_fault_handler, bp_fault_handler, bp_fault_handler,
               bp_fault_handler},
};
