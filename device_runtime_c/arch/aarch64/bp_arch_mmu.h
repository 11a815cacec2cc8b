/* SPDX-License-Identifier: Apache-2.0 */
/* Memory at EL1: an identity map; pages that are not mapped fault. */

#ifndef BP_ARCH_MMU_H
#define BP_ARCH_MMU_H

#include <stdint.h>

/* Use of a page. */
enum bp_arch_mmu_use {
    BP_ARCH_MMU_CODE,   /* read and executed */
    BP_ARCH_MMU_DATA,   /* read and written */
    BP_ARCH_MMU_STACK,  /* read, written and executed */
    BP_ARCH_MMU_DEVICE, /* the same as data, without reordering or merging of accesses */
};

/* Map the memory from `start` to `end`, which are multiples of 4 KiB within the first 4 GiB. Each
 * GiB that is mapped takes a table of 4 KiB, and each 2 MiB that is partly mapped another one. */
void bp_arch_mmu_map(uintptr_t start, uintptr_t end, enum bp_arch_mmu_use use);

/* Enable the MMU and the caches. */
void bp_arch_mmu_enable(void);

#endif
