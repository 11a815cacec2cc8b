/* SPDX-License-Identifier: Apache-2.0 */
/* The entry to a guarded call, and the two exits from it; see bp_arch_guard.h.
 *
 * Registers: Arm Architecture Reference Manual for A-profile (DDI 0487). Those that a function must
 * preserve: Procedure Call Standard for the Arm 64-bit Architecture (IHI 0055). */

#include "boardprof/bp_config.h"

#if BP_CFG_GUARD

/* All registers that a function must preserve, to or from bp_frame_t at x0: 14 words, 6 for the
 * exception, 8 of floating point. */
    .macro bp_callee_saved op
    \op     x19, x20, [x0, #0]
    \op     x21, x22, [x0, #16]
    \op     x23, x24, [x0, #32]
    \op     x25, x26, [x0, #48]
    \op     x27, x28, [x0, #64]
    \op     x29, x30, [x0, #80]
    \op     d8, d9, [x0, #160]
    \op     d10, d11, [x0, #176]
    \op     d12, d13, [x0, #192]
    \op     d14, d15, [x0, #208]
    .endm

#if BP_CFG_SAMPLING
#define BP_SAMPLE_STACK 2048 /* bytes; bp_arch_guard.c has the same number */
#define BP_SAMPLE_FRAME 688  /* what bp_caller_saved takes, and sp */

/* The registers that a function may change, except x9, to or from the frame at x9. x0 and x1 are
 * the last ones. */
    .macro bp_caller_saved op
    \op     q0, q1, [x9, #176]
    \op     q2, q3, [x9, #208]
    \op     q4, q5, [x9, #240]
    \op     q6, q7, [x9, #272]
    \op     q16, q17, [x9, #304]
    \op     q18, q19, [x9, #336]
    \op     q20, q21, [x9, #368]
    \op     q22, q23, [x9, #400]
    \op     q24, q25, [x9, #432]
    \op     q26, q27, [x9, #464]
    \op     q28, q29, [x9, #496]
    \op     q30, q31, [x9, #528]
    \op     x2, x3, [x9, #16]
    \op     x4, x5, [x9, #32]
    \op     x6, x7, [x9, #48]
    \op     x8, x10, [x9, #64]
    \op     x11, x12, [x9, #80]
    \op     x13, x14, [x9, #96]
    \op     x15, x16, [x9, #112]
    \op     x17, x18, [x9, #128]
    \op     x29, x30, [x9, #144]
    \op     x0, x1, [x9, #0]
    .endm
#endif

    .text

/* bool bp_arch_guard_enter(bp_frame_t *frame, void (*body)(void *context), void *context): call
 * body(context), guarded. Returns whether an exception ended it; the exception is then in the
 * frame. */
    .globl bp_arch_guard_enter
bp_arch_guard_enter:
    bp_callee_saved stp
    mov     x9, sp
    str     x9, [x0, #96]
    msr     tpidr_el1, x0
    isb
    msr     daifclr, #6                 /* IRQ and SError */
    mov     x0, x2
    blr     x1
    msr     daifset, #15
    mrs     x0, tpidr_el1
    msr     tpidr_el1, xzr
    ldr     x30, [x0, #88]
    mov     w0, #0
    ret

/* Overrides the weak handler of crt0.S. It returns without eret: it stays at EL1, and the caller of
 * bp_arch_guard_enter restores DAIF. x9 is the kind of exception. */
    .globl bp_trap
bp_trap:
#if BP_CFG_SAMPLING
    /* In a guarded call, IRQ is the timer's: for a sample, or the limit. The function's stack and
     * registers stay as they are. */
    cmp     x9, #1
    b.ne    2f
    mrs     x9, tpidr_el1
    cbz     x9, 1f
    adrp    x9, bp_sample_stack + BP_SAMPLE_STACK - BP_SAMPLE_FRAME
    add     x9, x9, :lo12:bp_sample_stack + BP_SAMPLE_STACK - BP_SAMPLE_FRAME
    bp_caller_saved stp
    mov     x1, sp
    str     x1, [x9, #160]
    mov     sp, x9
    mrs     x0, elr_el1
    bl      bp_arch_sample
    mov     x9, sp
    cmp     w0, #0                      /* the loads leave the flags alone */
    ldr     x0, [x9, #160]
    mov     sp, x0
    bp_caller_saved ldp
    b.ne    1f
    mrs     x9, tpidrro_el0
    eret
1:  mov     x9, #1
2:
#endif
    mrs     x0, tpidr_el1
    cbnz    x0, 2f
1:  b       1b                          /* not guarded */
2:  mrs     x10, esr_el1
    mrs     x11, elr_el1
    mrs     x12, far_el1
    stp     x9, x10, [x0, #112]
    stp     x11, x12, [x0, #128]
    mov     x13, sp
    stp     x30, x13, [x0, #144]
    msr     tpidr_el1, xzr
    bp_callee_saved ldp
    ldr     x9, [x0, #96]
    mov     sp, x9
    mov     w0, #1
    ret

#endif
