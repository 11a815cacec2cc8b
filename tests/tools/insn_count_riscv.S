/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of hand-countable length for QEMU's RV32 and RV64 `virt` machines; the numbers number
 * the instructions. No pseudo-instruction here is longer than one instruction, except in _start. */

#if __riscv_xlen == 64
#define LOAD ld
#define STORE sd
#else
#define LOAD lw
#define STORE sw
#endif

.macro function name
        .globl  \name
        .type   \name, @function
\name:
.endm

.macro end name
        .size   \name, . - \name
.endm

        .option norelax
        .text

function _start
        la      sp, _start + 0x100000
        la      t0, trap_handler
        csrw    mtvec, t0

        jal     straight
        jal     straight
        jal     loop
        li      a0, 3
        jal     recurse
        jal     nested
        jal     mmio
        jal     mmio_poll

        jal     arm_timer               # 10 ticks of 100 ns are 1000 instructions, and the timer
        jal     long_block              # stays masked: it cuts the block and interrupts nothing

        jal     arm_timer
        li      t0, 1 << 7              # mie.MTIE
        csrw    mie, t0
        jal     interrupted
        jal     trapping

        li      t0, 0x100000            # the test finisher ends QEMU
        li      t1, 0x5555
        sw      t1, 0(t0)
        j       .

arm_timer:                              # inside _start's range: nothing here is ever counted
        lui     t0, 0x200c
        lw      t1, -8(t0)              # mtime at 0x0200bff8
        lui     t0, 0x2004              # mtimecmp
        addi    t1, t1, 10
        sw      t1, 0(t0)
        sw      zero, 4(t0)
        ret
end _start

function straight
        addi    t0, zero, 1             # 1
        addi    t0, t0, 1               # 2
        slli    t0, t0, 3               # 3
        mul     t0, t0, t0              # 4
        ret                             # 5
end straight

function loop
        addi    t0, zero, 10            # 1
1:      addi    t0, t0, -1              # 10 x 1
        bnez    t0, 1b                  # 10 x 2
        ret                             # 22
end loop

function recurse                        # a0: depth
        beqz    a0, 1f                  # 1
        addi    sp, sp, -16             # 2
        STORE   ra, 8(sp)               # 3
        addi    a0, a0, -1              # 4
        jal     recurse                 # 5
        LOAD    ra, 8(sp)               # 6
        addi    sp, sp, 16              # 7
1:      ret                             # 8, or 2 at depth 0
end recurse

function nested
        addi    sp, sp, -16             # 1
        STORE   ra, 8(sp)               # 2
        jal     straight                # 3, and 5 more there
        LOAD    ra, 8(sp)               # 4
        addi    sp, sp, 16              # 5
        ret                             # 6
end nested

function mmio
        lui     t0, 0x200c              # 1
        addi    t2, zero, 1             # 2
        lw      t1, -8(t0)              # 3, mtime
        addi    t2, t2, 1               # 4
        lw      t1, -4(t0)              # 5, mtimeh
        addi    t2, t2, 1               # 6
        ret                             # 7
end mmio

function mmio_poll
        lui     t0, 0x200c              # 1
        addi    t1, zero, 5             # 2
1:      lw      t2, -8(t0)              # 5 x 1, mtime, first in its block
        addi    t1, t1, -1              # 5 x 2
        bnez    t1, 1b                  # 5 x 3
        ret                             # 18
end mmio_poll

function long_block
        .rept   2000
        addi    t0, t0, 1               # 2000
        .endr
        ret                             # 2001
end long_block

function interrupted
        wfi                             # 1, ends when the timer is pending
        csrsi   mstatus, 8              # 2, and 4 in the handler
        nop                             # 3
        csrci   mstatus, 8              # 4
        ret                             # 5
end interrupted

function trapping
        .option push
        .option norvc                   # the handler steps over 4 bytes
        lui     t0, 0x90000             # 1
        lw      t1, 0(t0)               # 2, nothing is there, and 6 in the handler
        ret                             # 3
        .option pop
end trapping

        .balign 4
trap_handler:
        csrr    t1, mcause              # interrupt 1, trap 1
        bltz    t1, 1f                  # 2            2
        csrr    t1, mepc                #              3
        addi    t1, t1, 4               #              4
        csrw    mepc, t1                #              5
        mret                            #              6
1:      csrw    mie, zero               # 3
        mret                            # 4
