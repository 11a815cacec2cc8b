/* SPDX-License-Identifier: Apache-2.0 */
/* Start of an AArch64 program that runs at EL1 and has the core to itself.
 *
 * The board's link.ld places .init first and defines, all aligned to 16 bytes: bp_stack_top,
 * bp_bss_start, bp_bss_end. The image is loaded where it runs. Until the port has enabled the MMU
 * (bp_arch_mmu.h), all memory is device memory, which allows only aligned accesses.
 *
 * Arm Architecture Reference Manual for A-profile (DDI 0487), "The AArch64 System Level
 * Programmers' Model" (the vector table), and VBAR_EL1, MPIDR_EL1, CPACR_EL1 in "AArch64 System
 * Register Descriptions". */

    .section .init, "ax"
    .globl _start
_start:
    msr     daifset, #15
    adrp    x0, bp_vectors
    add     x0, x0, :lo12:bp_vectors
    msr     vbar_el1, x0
    msr     tpidr_el1, xzr              /* no guarded call (bp_arch_guard.h) */

    /* Only one core runs the agent: by convention the one whose lowest affinity is 0. */
    mrs     x0, mpidr_el1
    tst     x0, #0xff
    b.ne    bp_park

    mov     x0, #3 << 20                /* FPEN: floating point and SIMD do not trap */
    msr     cpacr_el1, x0
    isb

    adrp    x0, bp_stack_top
    add     x0, x0, :lo12:bp_stack_top
    mov     sp, x0
    adrp    x0, bp_bss_start
    add     x0, x0, :lo12:bp_bss_start
    adrp    x1, bp_bss_end
    add     x1, x1, :lo12:bp_bss_end
    b       2f
1:  stp     xzr, xzr, [x0], #16
2:  cmp     x0, x1
    b.lo    1b

    bl      main
bp_park:
    wfi
    b       bp_park

/* Every exception stops here; ESR_EL1, ELR_EL1 and FAR_EL1 still say what happened. Weak, so that a
 * program can define a handler of its own. x9 is 0 for a synchronous exception, 1 for IRQ, 2 for
 * FIQ, 3 for SError; what it was is in TPIDRRO_EL0. */
    .weak   bp_trap
bp_trap:
    b       bp_park

    .balign 2048
bp_vectors:
    .rept   4
    .irp    kind, 0, 1, 2, 3
    .balign 128
    msr     tpidrro_el0, x9
    mov     x9, #\kind
    b       bp_trap
    .endr
    .endr
