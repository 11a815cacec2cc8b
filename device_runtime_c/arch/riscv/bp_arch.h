/* SPDX-License-Identifier: Apache-2.0 */
/* The machine-mode counters of RISC-V: mcycle, minstret and mtime.
 *
 * All are 64 bits wide on rv32 and rv64 (RISC-V privileged manual, version 20211203, 3.1.10). The
 * functions are for machine mode. */

#ifndef BP_ARCH_H
#define BP_ARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "bp_arch_trap.h"

#define BP_ARCH_HAS_CYCLES32 1
#define BP_ARCH_CYCLES32_SOURCE "mcycle"
#define BP_ARCH_CYCLES_SOURCE "mcycle"
#define BP_ARCH_INSTRUCTIONS_SOURCE "minstret"

/* Read a 64-bit counter. On rv32 this takes two reads, and the low half may wrap in between. It
 * cannot wrap twice within five instructions, so one more read is enough. A loop until both high
 * halves agree would never end if the high half is missing and a trap handler skips the read.
 * Always inlined: at -Os GCC would make it a call, which would be part of measured windows. */
#if __riscv_xlen == 64
#define BP_ARCH_COUNTER(name)                                                    \
    __attribute__((always_inline)) static inline uint64_t bp_arch_##name(void) { \
        uint64_t value;                                                          \
        __asm__ volatile("csrr %0, " #name : "=r"(value));                       \
        return value;                                                            \
    }
#else
#define BP_ARCH_COUNTER(name)                                                    \
    __attribute__((always_inline)) static inline uint64_t bp_arch_##name(void) { \
        uint32_t high, low, high_after;                                          \
        __asm__ volatile("csrr %0, " #name "h" : "=r"(high));                    \
        __asm__ volatile("csrr %0, " #name : "=r"(low));                         \
        __asm__ volatile("csrr %0, " #name "h" : "=r"(high_after));              \
        if (high != high_after) {                                                \
            __asm__ volatile("csrr %0, " #name : "=r"(low));                     \
        }                                                                        \
        return (uint64_t)high_after << 32 | low;                                 \
    }
#endif

BP_ARCH_COUNTER(mcycle)   /* uint64_t bp_arch_mcycle(void): clock cycles of this hart */
BP_ARCH_COUNTER(minstret) /* uint64_t bp_arch_minstret(void): instructions retired by it */

/* The names that collectors use on every core. */
#define bp_arch_cycles bp_arch_mcycle
#define bp_arch_instructions bp_arch_minstret

static inline uint8_t bp_arch_instructions_bits(void) {
    return 64;
}

/* A 64-bit counter in memory, such as mtime, at the board's `address` (3.2.1). */
static inline uint64_t bp_arch_counter_at(uintptr_t address) {
#if __riscv_xlen == 64
    return *(const volatile uint64_t *)address;
#else
    const volatile uint32_t *half = (const volatile uint32_t *)address;
    uint32_t high = half[1];
    uint32_t low = half[0];
    uint32_t high_after = half[1];
    if (high != high_after) {
        low = half[0];
    }
    return (uint64_t)high_after << 32 | low;
#endif
}

/* The low 32 bits of mcycle, in one instruction. */
static inline uint32_t bp_arch_cycles32(void) {
    unsigned long value;
    __asm__ volatile("csrr %0, mcycle" : "=r"(value));
    return (uint32_t)value;
}

/* Alignment of the label that mtvec will point to. */
#define BP_ARCH_TEXT(number) #number
#define BP_ARCH_BALIGN(bytes) ".balign " BP_ARCH_TEXT(bytes) "\n"
#define BP_ARCH_TRAP_HERE BP_ARCH_BALIGN(BP_ARCH_TRAP_ALIGN)

/* Start mcycle and minstret: clear CY (bit 0) and IR (bit 2) of mcountinhibit (3.1.12). Returns
 * whether these counters exist; if not, reading one traps.
 *
 * Cores older than privileged version 1.11 have no mcountinhibit. Writing it traps there, and both
 * counters always run. So mtvec points to the instruction after each access meanwhile: a trap then
 * only changes mepc, mcause and mtval. Interrupts are off, so that they do not go there. The CSR is
 * given by number because assemblers reject its name for older versions. */
static inline bool bp_arch_cycles_init(void) {
    unsigned long mstatus, mtvec, there;
    __asm__ volatile("csrrci %0, mstatus, 8\n" /* MIE */
                     "   la      %1, 1f\n"
                     "   csrrw   %1, mtvec, %1\n"
                     "   csrci   0x320, 5\n"
                     "   " BP_ARCH_TRAP_HERE "1: la      %2, 2f\n"
                     "   csrw    mtvec, %2\n"
                     "   li      %2, 0\n"
                     "   csrr    zero, mcycle\n"
                     "   csrr    zero, minstret\n"
                     "   li      %2, 1\n"
                     "   " BP_ARCH_TRAP_HERE "2: csrw    mtvec, %1\n"
                     "   csrw    mstatus, %0\n"
                     : "=&r"(mstatus), "=&r"(mtvec), "=&r"(there)
                     :
                     : "memory");
    return there != 0;
}

/* Execute instructions that may trap, with `value` in %[in]. What they leave in %[out] is stored in
 * `result`. Returns whether none trapped; the instructions after one that did are skipped. */
#define BP_ARCH_TRY(instructions, result, value)                                              \
    (__extension__({                                                                          \
        uintptr_t bp_mstatus, bp_mtvec, bp_done;                                              \
        __asm__ volatile("csrrci %[status], mstatus, 8\n" /* MIE */                           \
                         "la     %[vector], 1f\n"                                             \
                         "csrrw  %[vector], mtvec, %[vector]\n"                               \
                         "li     %[done], 0\n" instructions                                   \
                         "li     %[done], 1\n" BP_ARCH_TRAP_HERE "1: csrw mtvec, %[vector]\n" \
                         "csrw   mstatus, %[status]\n"                                        \
                         : [status] "=&r"(bp_mstatus), [vector] "=&r"(bp_mtvec),              \
                           [done] "=&r"(bp_done), [out] "+&r"(result)                         \
                         : [in] "r"(value)                                                    \
                         : "memory");                                                         \
        bp_done != 0;                                                                         \
    }))

/* Whether no bit of `counters` is set in mcountinhibit, which stops a counter (3.1.12); if one is,
 * clear it. Without that register, reading it traps, and counters cannot be stopped. */
static inline bool bp_arch_inhibit_clear(uintptr_t counters) {
    uintptr_t inhibited = 0;
    (void)BP_ARCH_TRY("csrrc %[out], 0x320, %[in]\n", inhibited, counters);
    return (inhibited & counters) == 0;
}

/* Whether mcycle and minstret run; if not, start them again. */
static inline bool bp_arch_cycles_intact(void) {
    return bp_arch_inhibit_clear(5u);
}

static inline bool bp_arch_cycles32_init(void) {
    return bp_arch_cycles_init();
}

#define BP_ARCH_INSTRUCTIONS32_SOURCE "minstret"

/* The low 32 bits of minstret, in one instruction. */
static inline uint32_t bp_arch_instructions32(void) {
    unsigned long value;
    __asm__ volatile("csrr %0, minstret" : "=r"(value));
    return (uint32_t)value;
}

/* Mask all interrupts for a few instructions: mstatus.MIE, bit 3 (3.1.6). */
static inline uintptr_t bp_arch_lock(void) {
    uintptr_t before;
    __asm__ volatile("csrrci %0, mstatus, 8" : "=r"(before)::"memory");
    return before;
}

static inline void bp_arch_unlock(uintptr_t before) {
    __asm__ volatile("csrw mstatus, %0" ::"r"(before) : "memory");
}

#endif
