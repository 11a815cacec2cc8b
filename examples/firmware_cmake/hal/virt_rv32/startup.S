/* SPDX-License-Identifier: Apache-2.0 */
/* Clear .bss and call main. .data is already in place. */

    .section .init, "ax"
    .globl  start
start:
    .option push
    .option norelax
    la      gp, __global_pointer$
    .option pop
    la      t0, park
    csrw    mtvec, t0
    csrr    t0, mhartid
    bnez    t0, park
    la      sp, stack_top
    la      t0, bss_start
    la      t1, bss_end
    j       1f
0:  sw      zero, 0(t0)
    addi    t0, t0, 4
1:  bltu    t0, t1, 0b
    call    main

    .balign 4
park:
    wfi
    j       park
