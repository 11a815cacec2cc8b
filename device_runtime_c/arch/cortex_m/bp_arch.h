/* SPDX-License-Identifier: Apache-2.0 */
/* The cycle counter of Cortex-M: DWT CYCCNT, 32 bits.
 *
 * ARMv7-M and ARMv8-M mainline cores may have one. ARMv6-M (M0, M0+) and ARMv8-M baseline (M23) do
 * not (ARMv6-M ARM, DDI 0419, C1.7: its DWT has no CYCCNT). There BP_ARCH_HAS_CYCLES32 is 0 and the
 * two functions do not exist.
 *
 * No ID bit is used to find out whether CYCCNT exists: an emulator's DWT_CTRL can say "present"
 * while the counter does not move. Users of the counter must see it advance. */

#ifndef BP_ARCH_H
#define BP_ARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "boardprof/bp_config.h"

#define BP_ARCH_CYCLES32_SOURCE "DWT CYCCNT"

#if defined(__ARM_ARCH_7M__) || defined(__ARM_ARCH_7EM__) || defined(__ARM_ARCH_8M_MAIN__) || \
    defined(__ARM_ARCH_8_1M_MAIN__)

#define BP_ARCH_HAS_CYCLES32 1

/* ARMv7-M ARM (DDI 0403): DEMCR C1.6.5; DWT_CTRL C1.8.7; DWT_CYCCNT C1.8.8. */
#define BP_ARCH_DEMCR (*(volatile uint32_t *)0xe000edfcu)
#define BP_ARCH_DEMCR_TRCENA (1u << 24)
#define BP_ARCH_DWT_CTRL (*(volatile uint32_t *)0xe0001000u)
#define BP_ARCH_DWT_CTRL_CYCCNTENA (1u << 0)
#define BP_ARCH_DWT_CYCCNT (*(volatile uint32_t *)0xe0001004u)
#define BP_ARCH_DWT_LAR (*(volatile uint32_t *)0xe0001fb0u)

/* Start the counter. Its value is kept, since others may be reading it. */
static inline bool bp_arch_cycles32_init(void) {
    /* TRCENA first: while it is clear, the DWT's registers may ignore writes (C1.6.5). */
    BP_ARCH_DEMCR |= BP_ARCH_DEMCR_TRCENA;
    /* Some Cortex-M7 lock the DWT against software after a reset; this key unlocks it (LAR,
     * CoreSight architecture specification, IHI 0029). Without a lock, the write is ignored. */
    BP_ARCH_DWT_LAR = 0xc5acce55u;
    BP_ARCH_DWT_CTRL |= BP_ARCH_DWT_CTRL_CYCCNTENA;
    return true;
}

/* Whether it still counts; if not, start it again. */
static inline bool bp_arch_cycles_intact(void) {
    bool intact = (BP_ARCH_DEMCR & BP_ARCH_DEMCR_TRCENA) != 0 &&
                  (BP_ARCH_DWT_CTRL & BP_ARCH_DWT_CTRL_CYCCNTENA) != 0;
    return intact || (bp_arch_cycles32_init(), false);
}

static inline uint32_t bp_arch_cycles32(void) {
    return BP_ARCH_DWT_CYCCNT;
}

#else

#define BP_ARCH_HAS_CYCLES32 0

#endif

/* Mask all interrupts but NMI and faults for a few instructions (ARMv7-M ARM, B1.4.3). A mask takes
 * effect at once, without an ISB (B5.2.3). */
static inline uintptr_t bp_arch_lock_all(void) {
    uintptr_t before;
    __asm__ volatile("mrs %0, primask\n cpsid i" : "=r"(before)::"memory");
    return before;
}

static inline void bp_arch_unlock_all(uintptr_t before) {
    __asm__ volatile("msr primask, %0" ::"r"(before) : "memory");
}

/* Mask those that BP_CFG_BASEPRI names. BASEPRI_MAX never masks less than before, so locks nest. */
#if BP_CFG_BASEPRI
static inline uintptr_t bp_arch_lock(void) {
    uintptr_t before;
    __asm__ volatile("mrs %0, basepri\n msr basepri_max, %1"
                     : "=&r"(before)
                     : "r"(BP_CFG_BASEPRI)
                     : "memory");
    return before;
}

static inline void bp_arch_unlock(uintptr_t before) {
    __asm__ volatile("msr basepri, %0" ::"r"(before) : "memory");
}
#else
#define bp_arch_lock bp_arch_lock_all
#define bp_arch_unlock bp_arch_unlock_all
#endif

#endif
