/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors, with SysTick's; reset clears .bss and calls main. .data is already in place. */

    .syntax unified
    .thumb

    .section .vectors, "a"
    .word   stack_top
    .word   reset
    .rept   13
    .word   park
    .endr
    .word   systick

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
