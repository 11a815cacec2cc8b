/* SPDX-License-Identifier: Apache-2.0 */
/* Memory at EL1: what is mapped is where it is, what is not cannot be touched. */

#ifndef BP_ARCH_MMU_H
#define BP_ARCH_MMU_H

#include <stdint.h>

/* What a page is for. */
enum bp_arch_mmu_use {
    BP_ARCH_MMU_CODE,   /* read and executed */
    BP_ARCH_MMU_DATA,   /* read and written */
    BP_ARCH_MMU_DEVICE, /* the same, each access as it is written */
};

/* Map the pages of 4 KiB from `start`, a multiple of it, up to `end`, both within the first 4 GiB.
 * Each GiB and each 2 MiB of which a piece is mapped takes a table of 4 KiB. */
void bp_arch_mmu_map(uintptr_t start, uintptr_t end, enum bp_arch_mmu_use use);

/* Let the tables count, and the caches. */
void bp_arch_mmu_enable(void);

#endif
