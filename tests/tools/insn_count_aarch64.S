/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of hand-countable length for QEMU's AArch64 `virt` machine; the numbers number the
 * instructions. It never ends by itself: the test kills QEMU. */

.macro function name
        .globl  \name
        .type   \name, %function
\name:
.endm

.macro end name
        .size   \name, . - \name
.endm

        .text

function _start
        adrp    x0, stack
        add     sp, x0, :lo12:stack
        adr     x0, vectors
        msr     vbar_el1, x0
        bl      straight
        bl      straight
        bl      loop
        mov     w0, #3
        bl      recurse
        bl      nested
        bl      mmio
        bl      mmio_poll
        bl      trapping
        b       .
end _start

function straight
        mov     w0, #1                  // 1
        add     w0, w0, #1              // 2
        mul     w0, w0, w0              // 3
        nop                             // 4
        ret                             // 5
end straight

function loop
        mov     w0, #10                 // 1
1:      subs    w0, w0, #1              // 10 x 1
        b.ne    1b                      // 10 x 2
        ret                             // 22
end loop

function recurse                        // w0: depth
        cbz     w0, 1f                  // 1
        str     x30, [sp, #-16]!        // 2
        sub     w0, w0, #1              // 3
        bl      recurse                 // 4
        ldr     x30, [sp], #16          // 5
1:      ret                             // 6, or 2 at depth 0
end recurse

function nested
        stp     x29, x30, [sp, #-16]!   // 1
        bl      straight                // 2, and 5 more there
        ldp     x29, x30, [sp], #16     // 3
        ret                             // 4
end nested

function mmio
        mov     x0, #0x09000000         // 1, UART0
        ldr     w1, [x0, #0x18]         // 2, its flags
        nop                             // 3
        ldr     w1, [x0, #0x18]         // 4
        nop                             // 5
        ret                             // 6
end mmio

function mmio_poll
        mov     x0, #0x09000000         // 1
        mov     w1, #5                  // 2
1:      ldr     w2, [x0, #0x18]         // 5 x 1, first in its block
        subs    w1, w1, #1              // 5 x 2
        b.ne    1b                      // 5 x 3
        ret                             // 18
end mmio_poll

function trapping
        nop                             // 1
        udf     #0                      // 2, and 4 in the handler
        ret                             // 3
end trapping

        .balign 2048
vectors:
        .skip   0x200                   // synchronous, from this level: to step over it
        mrs     x1, elr_el1             // 1
        add     x1, x1, #4              // 2
        msr     elr_el1, x1             // 3
        eret                            // 4

        .bss
        .balign 16
        .skip   4096
stack:
