/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of the MMU, three levels for 4 GiB in pages of 4 KiB: Arm Architecture Reference Manual
 * for A-profile (DDI 0487), "The AArch64 Virtual Memory System Architecture" (translation table
 * descriptor formats), and MAIR_EL1, TCR_EL1, TTBR0_EL1, SCTLR_EL1 in "AArch64 System Register
 * Descriptions". */

#include "bp_arch_mmu.h"

#include <stddef.h>

#include "bp_arch.h"

/* The root, two tables of 1 GiB each, and page tables of 2 MiB each for memory and devices. */
enum { BP_TABLES = 10, BP_ENTRIES = 512 };

#define BP_IS_TABLE 3u /* in the last level: is a page */
#define BP_IS_BLOCK 1u
#define BP_BLOCK ((uintptr_t)1 << 21)
#define BP_ADDRESS (UINT64_C(0xfffffffff) << 12)
#define BP_ACCESSED (1u << 10)
#define BP_SHARED (3u << 8)
#define BP_READ_ONLY (1u << 7)
#define BP_NEVER_EXECUTE (UINT64_C(3) << 53)

/* MAIR_EL1: attribute 0 is normal memory, write-back, 1 is Device-nGnRnE. */
#define BP_MAIR 0x00ffu
#define BP_DEVICE (1u << 2)

static volatile uint64_t bp_tables[BP_TABLES][BP_ENTRIES] __attribute__((aligned(4096)));
static size_t bp_tables_used = 1; /* the root */

static const uint64_t bp_attributes[] = {
    [BP_ARCH_MMU_CODE] = BP_SHARED | BP_READ_ONLY,
    [BP_ARCH_MMU_DATA] = BP_SHARED | BP_NEVER_EXECUTE,
    [BP_ARCH_MMU_STACK] = BP_SHARED,
    [BP_ARCH_MMU_DEVICE] = BP_DEVICE | BP_NEVER_EXECUTE,
};

/* The table that `entry` points to; a new one if it does not point to any. */
static volatile uint64_t *bp_below(volatile uint64_t *entry) {
    if (*entry == 0) {
        if (bp_tables_used == BP_TABLES) {
            __builtin_trap(); /* BP_TABLES is too small for this board */
        }
        *entry = (uintptr_t)bp_tables[bp_tables_used++] | BP_IS_TABLE;
    }
    return (volatile uint64_t *)(uintptr_t)(*entry & BP_ADDRESS);
}

void bp_arch_mmu_map(uintptr_t start, uintptr_t end, enum bp_arch_mmu_use use) {
    uint64_t access = bp_attributes[use] | BP_ACCESSED;
    for (uintptr_t at = start, bytes; at < end; at += bytes) {
        volatile uint64_t *block = &bp_below(&bp_tables[0][at >> 30])[at >> 21 & 511];
        bytes = at % BP_BLOCK == 0 && end - at >= BP_BLOCK ? BP_BLOCK : 4096;
        if (bytes == BP_BLOCK) {
            *block = at | access | BP_IS_BLOCK;
        } else {
            bp_below(block)[at >> 12 & 511] = at | access | BP_IS_TABLE;
        }
    }
}

void bp_arch_mmu_enable(void) {
    enum { M = 1 << 0, C = 1 << 2, SA = 1 << 3, I = 1 << 12, RES1 = 0x30d00800 };
    BP_ARCH_WRITE(mair_el1, BP_MAIR);
    /* EPD1: nothing in the upper range; SH0, ORGN0, IRGN0: the tables are in normal memory; T0SZ:
     * 32 bits. */
    BP_ARCH_WRITE(tcr_el1, 1u << 23 | 3u << 12 | 1u << 10 | 1u << 8 | 32u);
    BP_ARCH_WRITE(ttbr0_el1, (uintptr_t)bp_tables[0]);
    __asm__ volatile("dsb sy\n\ttlbi vmalle1\n\tic iallu\n\tdsb sy\n\tisb" ::: "memory");
    BP_ARCH_WRITE(sctlr_el1, RES1 | M | C | SA | I);
}
