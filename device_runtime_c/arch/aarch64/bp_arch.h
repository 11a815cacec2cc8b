/* SPDX-License-Identifier: Apache-2.0 */
/* The counters of AArch64 at EL1: the generic timer, and those of the performance monitors (PMUv3)
 * that count cycles and instructions.
 *
 * Arm Architecture Reference Manual for A-profile (DDI 0487), whose chapter numbers differ in each
 * issue: "The Generic Timer in AArch64 state", "The Performance Monitors Extension", and the
 * registers by name in "AArch64 System Register Descriptions". Tested only on QEMU. */

#ifndef BP_ARCH_H
#define BP_ARCH_H

#include <stdbool.h>
#include <stdint.h>

#define BP_ARCH_HAS_CYCLES32 1
#define BP_ARCH_CYCLES32_SOURCE "PMCCNTR_EL0"
#define BP_ARCH_CYCLES_SOURCE "PMCCNTR_EL0"
#define BP_ARCH_INSTRUCTIONS_SOURCE "PMEVCNTR0_EL0, event INST_RETIRED"

/* The barrier makes sure that everything before the read has been executed. */
#define BP_ARCH_READ(name)                                          \
    (__extension__({                                                \
        uint64_t bp_value;                                          \
        __asm__ volatile("isb\n\tmrs %0, " #name : "=r"(bp_value)); \
        bp_value;                                                   \
    }))

#define BP_ARCH_WRITE(name, value) \
    __asm__ volatile("msr " #name ", %0\n\tisb" : : "r"((uint64_t)(value)) : "memory")

/* CNTVCT_EL0: the virtual count of the generic timer, 64 bits. */
static inline uint64_t bp_arch_ticks(void) {
    return BP_ARCH_READ(cntvct_el0);
}

/// PMUv3 ///

/* PMCR_EL0. Bit 31 of PMCNTENSET_EL0 is for PMCCNTR_EL0. */
#define BP_ARCH_PMCR_E (1u << 0)  /* count */
#define BP_ARCH_PMCR_D (1u << 3)  /* count only every 64th cycle */
#define BP_ARCH_PMCR_LC (1u << 6) /* all 64 bits of the cycle counter */
#define BP_ARCH_PMU_CYCLES (1u << 31)

/* "The Performance Monitors Extension", common event numbers. */
enum {
    BP_ARCH_EVENT_INST_RETIRED = 0x08,
    BP_ARCH_EVENT_CHAIN = 0x1e, /* the previous counter has wrapped */
};

/* How many event counters the core has. -1: it has no PMUv3, and accessing its registers traps. */
static inline int bp_arch_pmu_counters(void) {
    unsigned version = BP_ARCH_READ(id_aa64dfr0_el1) >> 8 & 15; /* PMUVer */
    return version == 0 || version == 15 ? -1 : (int)(BP_ARCH_READ(pmcr_el0) >> 11 & 31);
}

/* Start the cycle counter, and event counters 0 and 1 as one 64-bit counter of instructions.
 * Returns whether these counters exist. */
static inline bool bp_arch_cycles_init(void) {
    if (bp_arch_pmu_counters() < 2) {
        return false;
    }
    BP_ARCH_WRITE(pmccfiltr_el0, 0); /* at every exception level that exists here; the same below */
    BP_ARCH_WRITE(pmevtyper0_el0, BP_ARCH_EVENT_INST_RETIRED);
    BP_ARCH_WRITE(pmevtyper1_el0, BP_ARCH_EVENT_CHAIN);
    BP_ARCH_WRITE(pmcntenset_el0, BP_ARCH_PMU_CYCLES | 3u);
    BP_ARCH_WRITE(pmcr_el0, (BP_ARCH_READ(pmcr_el0) & ~(uint64_t)BP_ARCH_PMCR_D) | BP_ARCH_PMCR_E |
                                BP_ARCH_PMCR_LC);
    return true;
}

/* Whether the counters run with the settings of bp_arch_cycles_init; if not, start them again. */
static inline bool bp_arch_cycles_intact(void) {
    uint64_t on = BP_ARCH_PMU_CYCLES | 3u, run = BP_ARCH_PMCR_E | BP_ARCH_PMCR_LC;
    bool intact = BP_ARCH_READ(pmccfiltr_el0) == 0 &&
                  BP_ARCH_READ(pmevtyper0_el0) == BP_ARCH_EVENT_INST_RETIRED &&
                  BP_ARCH_READ(pmevtyper1_el0) == BP_ARCH_EVENT_CHAIN &&
                  (BP_ARCH_READ(pmcntenset_el0) & on) == on &&
                  (BP_ARCH_READ(pmcr_el0) & (run | BP_ARCH_PMCR_D)) == run;
    return intact || (bp_arch_cycles_init(), false);
}

static inline uint64_t bp_arch_cycles(void) {
    return BP_ARCH_READ(pmccntr_el0);
}

/* Always inlined, like everything in measured windows. The low half may wrap in between, but not
 * twice. */
__attribute__((always_inline)) static inline uint64_t bp_arch_instructions(void) {
    uint64_t high = BP_ARCH_READ(pmevcntr1_el0);
    uint64_t low = BP_ARCH_READ(pmevcntr0_el0);
    uint64_t high_after = BP_ARCH_READ(pmevcntr1_el0);
    if (high != high_after) {
        low = BP_ARCH_READ(pmevcntr0_el0);
    }
    return high_after << 32 | (uint32_t)low;
}

/* How many bits of bp_arch_instructions() count: 64 if the second counter was seen to take the
 * carry of the first. Resets both. */
static inline uint8_t bp_arch_instructions_bits(void) {
    BP_ARCH_WRITE(pmevcntr1_el0, 0);
    BP_ARCH_WRITE(pmevcntr0_el0, UINT32_MAX);
    bool carried = BP_ARCH_READ(pmevcntr1_el0) != 0;
    BP_ARCH_WRITE(pmevcntr1_el0, 0);
    return carried ? 64 : 32;
}

static inline bool bp_arch_cycles32_init(void) {
    return bp_arch_cycles_init();
}

static inline uint32_t bp_arch_cycles32(void) {
    return (uint32_t)bp_arch_cycles();
}

#define BP_ARCH_INSTRUCTIONS32_SOURCE BP_ARCH_INSTRUCTIONS_SOURCE

/* The low 32 bits, which event counter 0 has. */
static inline uint32_t bp_arch_instructions32(void) {
    return (uint32_t)BP_ARCH_READ(pmevcntr0_el0);
}

/* Mask IRQ and FIQ for a few instructions ("Process state, PSTATE": DAIF). */
static inline uintptr_t bp_arch_lock(void) {
    uintptr_t before;
    __asm__ volatile("mrs %0, daif\n msr daifset, #3" : "=r"(before)::"memory");
    return before;
}

static inline void bp_arch_unlock(uintptr_t before) {
    __asm__ volatile("msr daif, %0" ::"r"(before) : "memory");
}

#endif
