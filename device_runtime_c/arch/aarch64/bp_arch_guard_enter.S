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
