/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors and reset: clear .bss and call main. .data is already in place. */

    .syntax unified
    .thumb

    .section .vectors, "a"
    .word   stack_top
    .word   reset
    .word   bp_nmi_handler
    .rept   4                   /* HardFault, MemManage, BusFault, UsageFault */
    .word   bp_fault_handler
    .endr
    .rept   9
    .word   park
    .endr

    /* The agent defines both if it is built with BP_CFG_GUARD=1. */
    .weak   bp_nmi_handler, bp_fault_handler
    .thumb_set bp_nmi_handler, park
    .thumb_set bp_fault_handler, park

    .text
    .thumb_func
    .globl  reset
reset:
    ldr     r0, =bss_start
    ldr     r1, =bss_end
    movs    r2, #0
0:  cmp     r0, r1
    bhs     1f
    str     r2, [r0], #4
    b       0b
1:  bl      main

    .thumb_func
park:
    b       park
