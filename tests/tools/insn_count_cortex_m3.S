/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of hand-countable length for QEMU's `mps2-an385` (Cortex-M3); the numbers number the
 * instructions. It never ends by itself: the test kills QEMU. */

.macro function name
        .globl  \name
        .type   \name, %function
        .thumb_func
\name:
.endm

.macro end name
        .size   \name, . - \name
.endm

        .syntax unified
        .thumb
        .text

        .word   0x20010000              /* initial stack pointer */
        .word   _start

function _start
        bl      straight
        bl      straight
        bl      loop
        movs    r0, #3
        bl      recurse
        bl      conditional
        bl      mmio
        bl      mmio_poll
        b       .
end _start

function straight
        movs    r0, #1                  @ 1
        adds    r0, #1                  @ 2
        mul     r0, r0, r0              @ 3, a 32-bit encoding
        nop                             @ 4
        bx      lr                      @ 5
end straight

function loop
        movs    r0, #10                 @ 1
1:      subs    r0, #1                  @ 10 x 1
        bne     1b                      @ 10 x 2
        bx      lr                      @ 22
end loop

function recurse                        @ r0: depth
        cbz     r0, 1f                  @ 1
        push    {lr}                    @ 2
        subs    r0, #1                  @ 3
        bl      recurse                 @ 4
        pop     {pc}                    @ 5
1:      bx      lr                      @ 2 at depth 0
end recurse

function conditional
        cmp     r0, r0                  @ 1
        ite     ne                      @ 2
        addne   r1, #1                  @ 3, fails
        addeq   r1, #2                  @ 4
        bx      lr                      @ 5
end conditional

function mmio
        movw    r0, #0x4000             @ 1
        movt    r0, #0x4000             @ 2, UART0
        ldr     r1, [r0, #4]            @ 3, STATE
        nop                             @ 4
        ldm     r0, {r1, r2}            @ 5, DATA and STATE: two reads by one instruction
        nop                             @ 6
        bx      lr                      @ 7
end mmio

function mmio_poll
        movw    r0, #0xe018             @ 1
        movt    r0, #0xe000             @ 2, SysTick's SYST_CVR
        movs    r1, #5                  @ 3
1:      ldr     r2, [r0]                @ 5 x 1, first in its block
        subs    r1, #1                  @ 5 x 2
        bne     1b                      @ 5 x 3
        bx      lr                      @ 19
end mmio_poll
