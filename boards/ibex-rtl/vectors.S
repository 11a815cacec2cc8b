/* SPDX-License-Identifier: Apache-2.0 */
/* Where Ibex goes on a trap: exceptions to the first entry of the table, interrupt n to entry n,
 * the non-maskable one to entry 31 (Ibex reference guide, "Exceptions and Interrupts"). The table
 * must be aligned to 256 bytes (same guide, "Control and Status Registers", mtvec); bp_rtl.ld places
 * it first. The core starts behind it, at 0x80 (same guide, boot address). */

    .section .vectors, "ax"
    .globl bp_vectors
    .option norvc                       /* an entry has 4 bytes */
bp_vectors:
    .rept 31
    j       bp_trap
    .endr
    j       bp_overdue
    .option rvc

    .text
/* The timer's interrupt has been pending for a while: a guarded function has turned interrupts off.
 * This turns them on again. The timer's interrupt then follows at once, and ends the function as
 * usual.
 *
 * mscratch is the frame of the guarded call (bp_arch_guard_enter.S), or 0; if 0, the code in
 * bp_arch_guard itself is about to handle the timer. The frame's word for mepc is free until a trap
 * comes. */
bp_overdue:
    csrrw   a0, mscratch, a0
    beqz    a0, 1f
    sw      t0, 15 * 4(a0)
    li      t0, 0x80                    /* MTIE in mie, MPIE in mstatus: mret copies it to MIE */
    csrs    mie, t0
    csrs    mstatus, t0
    lw      t0, 15 * 4(a0)
1:  csrrw   a0, mscratch, a0
    mret
