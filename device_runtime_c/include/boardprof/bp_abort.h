/* SPDX-License-Identifier: Apache-2.0 */
/* How abort() of a C library ends a guarded call. It executes an instruction that no compiler
 * emits, with the address of abort's caller in the link register. The trap handler recognises the
 * instruction and reports the caller. */

#ifndef BOARDPROF_BP_ABORT_H
#define BOARDPROF_BP_ABORT_H

/* Always illegal. RISC-V: a write to the first read-only custom CSR (privileged manual, version
 * 20211203, 2.1 and table 2.2). Thumb: UDF #0xba (ARMv7-M manual, DDI 0403, A7.7.194). */
#define BP_ABORT_RISCV 0xcc001073
#define BP_ABORT_THUMB 0xdeba

#define BP_ABORT_TEXT_(number) #number
#define BP_ABORT_TEXT(number) BP_ABORT_TEXT_(number)

/* `caller` is __builtin_return_address(0) in the function that aborts. */
__attribute__((always_inline, noreturn)) static inline void bp_abort_from(const void *caller) {
#if defined(__riscv)
    __asm__ volatile("mv ra, %0\n.4byte " BP_ABORT_TEXT(BP_ABORT_RISCV) : : "r"(caller));
#elif defined(__thumb__)
    __asm__ volatile("mov lr, %0\n.inst.n " BP_ABORT_TEXT(BP_ABORT_THUMB) : : "r"(caller));
#else
    (void)caller;
#endif
    __builtin_trap();
}

#endif
