/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel on Cortex-M3 and M4, with SysTick and PendSV (ARMv7-M ARM, DDI 0403: B1.5 and B3.2).
 * Tasks run on PSP, interrupts on MSP. */

#include "kernel.h"

#include "boardprof/bp_trace.h"

#define REG(address) (*(volatile uint32_t *)(address))
#define SYST_CSR REG(0xe000e010u)
#define SYST_RVR REG(0xe000e014u)
#define SYST_CVR REG(0xe000e018u)
#define SCB_ICSR REG(0xe000ed04u)
#define SCB_ICSR_PENDSVSET (1u << 28)
#define SCB_VTOR REG(0xe000ed08u)
#define SCB_SHPR3 REG(0xe000ed20u)
#define SCB_CPACR REG(0xe000ed88u)
#define XPSR_THUMB (1u << 24)
#define EXC_RETURN_PSP 0xfffffffdu /* to a task on PSP, without floating-point registers */

enum { SYSTICK = 15 }; /* its exception number */

/* Words that k_exception saves below those of the exception: r4 to r11 and lr. */
enum { FRAME = 9, FRAME_LR = 8, EXCEPTION = 8, EXCEPTION_PC = 6, EXCEPTION_XPSR = 7 };

static uint64_t k_interrupt_stack[256];

void *k_core_stack(void (*body)(void), void *top) {
    uint32_t *exception = (uint32_t *)((uintptr_t)top & ~(uintptr_t)7) - EXCEPTION;
    uint32_t *frame = exception - FRAME;
    __builtin_memset(frame, 0, (FRAME + EXCEPTION) * sizeof *frame);
    frame[FRAME_LR] = EXC_RETURN_PSP;
    exception[EXCEPTION_PC] = (uint32_t)body & ~1u;
    exception[EXCEPTION_XPSR] = XPSR_THUMB;
    return frame;
}

/* Called by k_exception with what it has saved; returns that of the task which runs now. All work
 * is between the two probes, so what an interrupt takes outside of them is always the same. */
__attribute__((used)) static void *k_switch(void *sp) {
    uint32_t number;
    __asm__ volatile("mrs %0, ipsr" : "=r"(number));
    BP_ISR_ENTER_NUMBER(number);
    k_running->sp = sp;
    if (number == SYSTICK) {
        k_tick();
    }
    k_schedule();
    sp = k_running->sp;
    BP_ISR_EXIT_NUMBER();
    return sp;
}

/* Bit 4 of lr is 0 if the exception has left room for floating-point registers (B1.5.8). */
__attribute__((naked)) static void k_exception(void) {
    __asm__ volatile("mrs r0, psp\n"
#if defined(__ARM_FP)
                     "tst lr, #16\n"
                     "it eq\n"
                     "vstmdbeq r0!, {s16-s31}\n"
#endif
                     "stmdb r0!, {r4-r11, lr}\n"
                     "bl k_switch\n"
                     "ldmia r0!, {r4-r11, lr}\n"
#if defined(__ARM_FP)
                     "tst lr, #16\n"
                     "it eq\n"
                     "vldmiaeq r0!, {s16-s31}\n"
#endif
                     "msr psp, r0\n"
                     "bx lr");
}

static void k_stop(void) {
    for (;;) {
    }
}

/* The other vectors are not used: they stop. B3.2.5: the table is
 * aligned as one of all 48 vectors would have to be. */
typedef void (*k_vector_t)(void);
static const k_vector_t k_vectors[16] __attribute__((aligned(256))) = {
    k_stop, k_stop, k_stop, k_stop, k_stop, k_stop, k_stop,      k_stop,
    k_stop, k_stop, k_stop, k_stop, k_stop, k_stop, k_exception, k_exception,
};

/* PendSV and SysTick have the lowest priority, so they do not nest. */
void k_core_start(uint32_t period) {
#if defined(__ARM_FP)
    SCB_CPACR |= 0xf00000u;
#endif
    SCB_VTOR = (uint32_t)k_vectors;
    SCB_SHPR3 = 0xffff0000u;
    __asm__ volatile("mov r0, sp\n"
                     "msr psp, r0\n"
                     "msr msp, %0\n"
                     "mov r0, #2\n" /* SPSEL */
                     "msr control, r0\n"
                     "isb" ::"r"(k_interrupt_stack + 256)
                     : "r0", "memory");
    SYST_RVR = period - 1;
    SYST_CVR = 0;
    SYST_CSR = 7;
}

void k_core_interrupt(void) {
    SCB_ICSR = SCB_ICSR_PENDSVSET;
    __asm__ volatile("dsb\n isb" ::: "memory");
}
