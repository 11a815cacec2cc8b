/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel on one RISC-V hart in machine mode, with the timer and the software interrupt of its
 * CLINT (RISC-V privileged manual, version 20211203, 3.1.6 to 3.1.9 and 3.2.1). Interrupts have a
 * stack of their own. They do not nest. */

#include "kernel.h"

#include "boardprof/bp_trace.h"

#define MSIP (*(volatile uint32_t *)0x02000000u)
#define MTIMECMP_LOW (*(volatile uint32_t *)0x02004000u)
#define MTIMECMP_HIGH (*(volatile uint32_t *)0x02004004u)
#define MTIME_LOW (*(volatile uint32_t *)0x0200bff8u)
#define MTIME_HIGH (*(volatile uint32_t *)0x0200bffcu)
#define MSTATUS_AT_START 0x1880u /* MPP: machine mode; MPIE: interrupts are on after mret */
#define MIE_TIMER_AND_SOFTWARE 0x88u
#define CAUSE_SOFTWARE 3u

enum { FRAME = 32, FRAME_RA = 1, FRAME_PC = 2, FRAME_STATUS = 3 }; /* words; see k_trap */

uint64_t k_interrupt_stack[256];

static uint64_t k_next_tick;
static uint32_t k_period;

void *k_core_stack(void (*body)(void), void *top) {
    uint32_t *frame = (uint32_t *)top - FRAME;
    __builtin_memset(frame, 0, FRAME * sizeof *frame);
    frame[FRAME_PC] = (uint32_t)body;
    frame[FRAME_STATUS] = MSTATUS_AT_START;
    return frame;
}

/* All ones in between: no old half may make the timer due. */
static void k_set_timer(void) {
    k_next_tick += k_period;
    MTIMECMP_LOW = UINT32_MAX;
    MTIMECMP_HIGH = (uint32_t)(k_next_tick >> 32);
    MTIMECMP_LOW = (uint32_t)k_next_tick;
}

/* Called by k_trap with what it has saved; returns that of the task which runs now. All work is
 * between the two probes, so what an interrupt takes outside of them is always the same. */
void *k_interrupt(void *sp) {
    uint32_t cause;
    __asm__ volatile("csrr %0, mcause" : "=r"(cause));
    BP_ISR_ENTER_NUMBER(cause & 0xffu);
    k_running->sp = sp;
    if ((cause & 0xffu) == CAUSE_SOFTWARE) {
        MSIP = 0;
    } else {
        k_set_timer();
        k_tick();
    }
    k_schedule();
    sp = k_running->sp;
    BP_ISR_EXIT_NUMBER();
    return sp;
}

/* x1 and x5 to x31 are at their numbers. Words 2 and 3 of the frame have pc and mstatus. */
void k_trap(void);
__asm__(".pushsection .text.k_trap, \"ax\"\n"
        ".balign 4\n"
        "k_trap:\n"
        "   addi sp, sp, -128\n"
        "   sw x1, 4(sp)\n"
        "   sw x5, 20(sp)\n"
        "   csrr x5, mepc\n"
        "   sw x5, 8(sp)\n"
        "   csrr x5, mstatus\n"
        "   sw x5, 12(sp)\n"
        ".irp n, 6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"
        "   sw x\\n, 4*\\n(sp)\n"
        ".endr\n"
        "   mv a0, sp\n"
        "   la sp, k_interrupt_stack + 2048\n"
        "   call k_interrupt\n"
        "   mv sp, a0\n"
        "   lw x5, 8(sp)\n"
        "   csrw mepc, x5\n"
        "   lw x5, 12(sp)\n"
        "   csrw mstatus, x5\n"
        "   lw x1, 4(sp)\n"
        ".irp n, 5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"
        "   lw x\\n, 4*\\n(sp)\n"
        ".endr\n"
        "   addi sp, sp, 128\n"
        "   mret\n"
        ".popsection\n");

void k_core_start(uint32_t period) {
    uint32_t high, low;
    do {
        high = MTIME_HIGH;
        low = MTIME_LOW;
    } while (high != MTIME_HIGH);
    k_next_tick = (uint64_t)high << 32 | low;
    k_period = period;
    k_set_timer();
    __asm__ volatile("csrw mtvec, %0\n"
                     "csrs mie, %1\n"
                     "csrsi mstatus, 8" ::"r"(k_trap),
                     "r"(MIE_TIMER_AND_SOFTWARE)
                     : "memory");
}

void k_core_interrupt(void) {
    MSIP = 1;
    (void)MSIP; /* it is written before this is read */
}
