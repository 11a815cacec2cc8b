/* SPDX-License-Identifier: Apache-2.0 */
/* Counters that a test sets: the collectors run on them as they are. */

#ifndef BP_ARCH_H
#define BP_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if BP_CFG_TRACE_CORES > 1
#include <sched.h>
#endif

#define BP_ARCH_HAS_CYCLES32 1
#define BP_ARCH_CYCLES32_SOURCE "test_cycles"
#define BP_ARCH_CYCLES_SOURCE "test_cycles"
#define BP_ARCH_INSTRUCTIONS_SOURCE "test_instructions"

extern uint64_t test_cycles;
extern uint64_t test_cycles_step; /* each read advances by it, after the read */
extern uint64_t test_instructions;
extern uint64_t test_instructions_step;

#if BP_CFG_TRACE_CORES > 1
#define TEST_OF_CORE __thread
/* Each thread that has set it is a core of its own, whose clock has an offset and a drift. */
extern TEST_OF_CORE unsigned test_core;
extern uint64_t test_core_offset[];
extern int64_t test_core_apart[]; /* cycles after which it is one ahead, or behind; 0 for never */

static inline uint64_t test_core_clock(uint64_t now) {
    int64_t apart = test_core_apart[test_core];
    return now + test_core_offset[test_core] + (uint64_t)(apart != 0 ? (int64_t)now / apart : 0);
}
#else
#define TEST_OF_CORE
#define test_core_clock(now) (now)
#endif

#if BP_CFG_TRACE
extern TEST_OF_CORE bool test_reads_first; /* the next read of the clock is the first one */
extern TEST_OF_CORE uint64_t test_first;   /* what that has read, without offset and drift */

static inline void test_note_read(uint64_t now) {
    if (test_reads_first) {
        test_reads_first = false;
        test_first = now;
    }
}
#else
#define test_note_read(now) ((void)(now))
#endif

static inline uint64_t bp_arch_cycles(void) {
    uint64_t now = test_cycles;
    test_cycles += test_cycles_step;
    test_note_read(now);
    return test_core_clock(now);
}

static inline uint64_t bp_arch_instructions(void) {
    uint64_t now = test_instructions;
    test_instructions += test_instructions_step;
    return now;
}

static inline uint8_t bp_arch_instructions_bits(void) {
    return 64;
}

static inline uint32_t bp_arch_cycles32(void) {
    return (uint32_t)bp_arch_cycles();
}

/* Nobody changes these counters. */
static inline bool bp_arch_cycles_intact(void) {
    return true;
}

static inline bool bp_arch_cycles_init(void) {
    return true;
}

static inline bool bp_arch_cycles32_init(void) {
    return true;
}

#define BP_ARCH_INSTRUCTIONS32_SOURCE BP_ARCH_INSTRUCTIONS_SOURCE

static inline uint32_t bp_arch_instructions32(void) {
    return (uint32_t)bp_arch_instructions();
}

/// The lock of probes ///

#if BP_CFG_TRACE_CORES > 1

/* One lock keeps out all other cores. */
extern int test_lock;
#define BP_ARCH_STAYS_LOCKED ((uintptr_t)0)

static inline unsigned bp_arch_core(void) {
    return test_core;
}

static inline uintptr_t bp_arch_lock(void) {
    while (__atomic_exchange_n(&test_lock, 1, __ATOMIC_ACQUIRE) != 0) {
        sched_yield(); /* the one that has it may wait for this processor */
    }
    return 1;
}

static inline void bp_arch_unlock(uintptr_t before) {
    if (before != BP_ARCH_STAYS_LOCKED) {
        __atomic_store_n(&test_lock, 0, __ATOMIC_RELEASE);
    }
}

#else

/* How deep locks nest; a test looks that they all end. */
extern uintptr_t test_locks;

/* Called, if a test has set it, whenever interrupts are on again. */
extern void (*test_unlocked)(void);

static inline uintptr_t bp_arch_lock(void) {
    uintptr_t before = test_locks++;
    __asm__ volatile("" ::: "memory");
    return before;
}

static inline void bp_arch_unlock(uintptr_t before) {
    __asm__ volatile("" ::: "memory");
    test_locks = before;
    __asm__ volatile("" ::: "memory");
    if (before == 0 && test_unlocked != NULL) {
        test_unlocked();
    }
}

#endif

/// A 16-bit timer on test_cycles, each of whose interrupts takes 60 of them ///

#define BP_ARCH_TIMER16_SOURCE "test_cycles"
#define BP_ARCH_RETURN_CYCLES 4

typedef struct {
    uint32_t interrupts;
    uint16_t count;
} bp_arch_timer16_t;

static inline void bp_arch_timer16_read(bp_arch_timer16_t *out) {
    uint64_t now = bp_arch_cycles();
    out->interrupts = (uint32_t)(now >> 16);
    out->count = (uint16_t)now;
}

static inline uint32_t bp_arch_timer16_wraps(const bp_arch_timer16_t *at) {
    return at->interrupts;
}

static inline uint16_t bp_arch_timer16_interrupt_cycles(void) {
    return 60;
}

#endif
