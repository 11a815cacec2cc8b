/* SPDX-License-Identifier: Apache-2.0 */
/* The entry to a guarded call, and the two exits from it; see bp_arch_guard.h.
 *
 * Control and status registers: RISC-V privileged manual, version 20211203. */

#include "boardprof/bp_config.h"
#include "bp_arch_trap.h"

#if BP_CFG_GUARD

#if __riscv_xlen == 64
#define BP_LOAD ld
#define BP_STORE sd
#define BP_WORD 8
#else
#define BP_LOAD lw
#define BP_STORE sw
#define BP_WORD 4
#endif

#if defined(__riscv_flen) && __riscv_flen >= 64
#define BP_LOAD_FLOAT fld
#define BP_STORE_FLOAT fsd
#elif defined(__riscv_flen)
#define BP_LOAD_FLOAT flw
#define BP_STORE_FLOAT fsw
#endif

#define BP_MSTATUS_MIE 8 /* 3.1.6.1 */

/* All registers that a function must preserve, to or from bp_frame_t at a0: 14 words, 6 for the
 * trap, 12 floating-point registers of 8 bytes. */
    .macro bp_callee_saved op, op_float
    \op     ra, 0 * BP_WORD(a0)
    \op     sp, 1 * BP_WORD(a0)
    \op     s0, 2 * BP_WORD(a0)
    \op     s1, 3 * BP_WORD(a0)
    \op     s2, 4 * BP_WORD(a0)
    \op     s3, 5 * BP_WORD(a0)
    \op     s4, 6 * BP_WORD(a0)
    \op     s5, 7 * BP_WORD(a0)
    \op     s6, 8 * BP_WORD(a0)
    \op     s7, 9 * BP_WORD(a0)
    \op     s8, 10 * BP_WORD(a0)
    \op     s9, 11 * BP_WORD(a0)
    \op     s10, 12 * BP_WORD(a0)
    \op     s11, 13 * BP_WORD(a0)
#ifdef __riscv_flen
    .irp number, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
    \op_float fs\number, 20 * BP_WORD + 8 * \number(a0)
    .endr
#endif
    .endm

#if BP_CFG_SAMPLING
#define BP_SAMPLE_STACK 512 /* bytes; bp_arch_guard.c has the same number */

/* The registers that a function may change, except t0, to or from the stack. */
    .macro bp_caller_saved op
    \op     ra, 0 * BP_WORD(sp)
    \op     t1, 1 * BP_WORD(sp)
    \op     t2, 2 * BP_WORD(sp)
    \op     t3, 3 * BP_WORD(sp)
    \op     t4, 4 * BP_WORD(sp)
    \op     t5, 5 * BP_WORD(sp)
    \op     t6, 6 * BP_WORD(sp)
    \op     a0, 7 * BP_WORD(sp)
    \op     a1, 8 * BP_WORD(sp)
    \op     a2, 9 * BP_WORD(sp)
    \op     a3, 10 * BP_WORD(sp)
    \op     a4, 11 * BP_WORD(sp)
    \op     a5, 12 * BP_WORD(sp)
    \op     a6, 13 * BP_WORD(sp)
    \op     a7, 14 * BP_WORD(sp)
    .endm
#endif

    .text

/* bool bp_arch_guard_enter(bp_frame_t *frame, void (*body)(void *context), void *context): call
 * body(context), guarded. Returns whether a trap ended it; the trap is then in the frame. */
    .globl bp_arch_guard_enter
bp_arch_guard_enter:
    bp_callee_saved BP_STORE, BP_STORE_FLOAT
    csrw    mscratch, a0
    mv      s0, a0              /* not from mscratch: the body may have changed it */
    csrsi   mstatus, BP_MSTATUS_MIE
    mv      a0, a2
    jalr    a1
    csrci   mstatus, BP_MSTATUS_MIE
    csrw    mscratch, zero
    BP_LOAD ra, 0(s0)
    BP_LOAD s0, 2 * BP_WORD(s0)
    li      a0, 0
    ret

/* Overrides the weak handler of crt0.S. It returns without mret: it stays in machine mode, and the
 * caller of bp_arch_guard_enter restores mstatus. */
    .globl bp_trap
    .balign BP_ARCH_TRAP_ALIGN
bp_trap:
    csrrw   a0, mscratch, a0
    bnez    a0, 2f
1:  j       1b                  /* not guarded; the original a0 is in mscratch */
2:
#if BP_CFG_SAMPLING
    /* An interrupt is the timer's: for a sample, or the limit. The words of the frame for the trap
     * are free until then. The registers that a C function may change go to a stack of their own. */
    BP_STORE t0, 14 * BP_WORD(a0)
    csrr    t0, mcause
    bgez    t0, 3f
    la      t0, bp_sample_stack + BP_SAMPLE_STACK - 16 * BP_WORD
    BP_STORE sp, 15 * BP_WORD(t0)
    mv      sp, t0
    bp_caller_saved BP_STORE
    BP_LOAD a1, 15 * BP_WORD(sp)
    csrr    a0, mepc
    call    bp_arch_sample
    mv      t0, a0
    bp_caller_saved BP_LOAD
    BP_LOAD sp, 15 * BP_WORD(sp)
    bnez    t0, 3f
    BP_LOAD t0, 14 * BP_WORD(a0)
    csrrw   a0, mscratch, a0
    mret
3:
#endif
    csrr    t0, mcause
    csrr    t1, mepc
    csrr    t2, mtval
    BP_STORE t0, 14 * BP_WORD(a0)
    BP_STORE t1, 15 * BP_WORD(a0)
    BP_STORE t2, 16 * BP_WORD(a0)
    BP_STORE ra, 17 * BP_WORD(a0)
    BP_STORE sp, 18 * BP_WORD(a0)
    csrw    mscratch, zero
    bp_callee_saved BP_LOAD, BP_LOAD_FLOAT
    li      a0, 1
    ret

#endif
