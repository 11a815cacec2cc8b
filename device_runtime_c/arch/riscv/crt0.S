/* SPDX-License-Identifier: Apache-2.0 */
/* Start of a machine-mode RISC-V program, rv32 and rv64.
 *
 * The board's link.ld places .init first and defines, all aligned to 8 bytes: bp_stack_top (to 16),
 * bp_data_load, bp_data_start, bp_data_end, bp_bss_start, bp_bss_end, and __global_pointer$.
 * Control and status registers: RISC-V privileged manual, version 20211203. */

#include "bp_arch_trap.h"

#if __riscv_xlen == 64
#define BP_LOAD ld
#define BP_STORE sd
#define BP_WORD 8
#else
#define BP_LOAD lw
#define BP_STORE sw
#define BP_WORD 4
#endif

    .section .init, "ax"
    .globl _start
_start:
    /* The linker must not relax this, since gp does not have its value yet. */
    .option push
    .option norelax
    la      gp, __global_pointer$
    .option pop

    /* Direct mode: the base is 4-byte aligned and the two low bits are 0 (3.1.7). */
    la      t0, bp_trap
    csrw    mtvec, t0
    csrw    mscratch, zero              /* no guarded call (bp_arch_guard.h) */

    /* Only one hart runs the agent: by convention the one with id 0 (3.1.5). */
    csrr    t0, mhartid
    bnez    t0, bp_park

    la      sp, bp_stack_top

#ifdef __riscv_flen
    /* mstatus.FS = initial; floating-point instructions trap while it is off (3.1.6.6). */
    li      t0, 0x2000
    csrs    mstatus, t0
    csrw    fcsr, zero
#endif

    /* If a loader puts the image directly into RAM, its data are already in place. */
    la      t0, bp_data_load
    la      t1, bp_data_start
    la      t2, bp_data_end
    beq     t0, t1, 2f
    j       1f
0:  BP_LOAD a0, 0(t0)
    BP_STORE a0, 0(t1)
    addi    t0, t0, BP_WORD
    addi    t1, t1, BP_WORD
1:  bltu    t1, t2, 0b

2:  la      t0, bp_bss_start
    la      t1, bp_bss_end
    j       4f
3:  BP_STORE zero, 0(t0)
    addi    t0, t0, BP_WORD
4:  bltu    t0, t1, 3b

    call    main
bp_park:
    wfi
    j       bp_park

/* Every trap stops here; mcause, mepc and mtval still say what happened (3.1.14 to 3.1.16). Weak,
 * so that a program can define a handler of its own, with the same alignment: the low bits of mtvec
 * are a mode. In a section of its own, so that _start is not aligned like this, too. */
    .section .text.bp_trap, "ax"
    .weak   bp_trap
    .balign BP_ARCH_TRAP_ALIGN
bp_trap:
    j       bp_park
