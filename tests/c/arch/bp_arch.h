/* SPDX-License-Identifier: Apache-2.0 */
/* Counters that a test sets: the collectors run on them as they are. */

#ifndef BP_ARCH_H
#define BP_ARCH_H

#include <stdbool.h>
#include <stdint.h>

#define BP_ARCH_HAS_CYCLES32 1
#define BP_ARCH_CYCLES32_SOURCE "test_cycles"

extern uint64_t test_cycles;
extern uint64_t test_cycles_step; /* each read advances by it, after the read */
extern uint64_t test_instructions;
extern uint64_t test_instructions_step;

static inline uint64_t bp_arch_mcycle(void) {
    uint64_t now = test_cycles;
    test_cycles += test_cycles_step;
    return now;
}

static inline uint64_t bp_arch_minstret(void) {
    uint64_t now = test_instructions;
    test_instructions += test_instructions_step;
    return now;
}

static inline uint32_t bp_arch_cycles32(void) {
    return (uint32_t)bp_arch_mcycle();
}

static inline bool bp_arch_cycles_init(void) {
    return true;
}

static inline bool bp_arch_cycles32_init(void) {
    return true;
}

#endif
