/* SPDX-License-Identifier: Apache-2.0 */
/* Probes of the board in memory. */

#include "boardprof/bp_config.h"

#if BP_CFG_TRACE

#include "bp_internal.h"
#include "port_memory.h"
#include "probes.h"

TEST_OF_CORE bool test_reads_first;
TEST_OF_CORE uint64_t test_first;

#if BP_CFG_TRACE_CORES > 1
TEST_OF_CORE unsigned test_core;
uint64_t test_core_offset[BP_CFG_TRACE_CORES];
int64_t test_core_apart[BP_CFG_TRACE_CORES];
int test_lock;
#else
uintptr_t test_locks;
#endif
void (*test_unlocked)(void);
uint32_t test_interrupted;

void test_mark(void) {
    BP_MARK(tick);
}

void test_value(int32_t value) {
    BP_VALUE(level, value);
}

void test_begin(void) {
    BP_RANGE_BEGIN(work);
}

void test_end(void) {
    BP_RANGE_END(work);
}

void test_shared(void) {
    BP_MARK(shared);
}

void test_alloc(uint32_t block, uint32_t bytes) {
    BP_ALLOC((void *)(uintptr_t)block, (size_t)bytes);
    BP_FREE((void *)(uintptr_t)block);
}

void test_task(uint64_t task) {
    BP_TASK_SWITCH((const void *)(uintptr_t)task);
}

/* Here, so that it has a number of a byte. */
void test_number(uint32_t value) {
    BP_VALUE(number, value);
}

/* An event of its own. It may have found that recording is on before the host stopped that. It does
 * not interrupt itself. With several cores it is never called, but the numbers of names are the
 * same then. */
static void test_interrupt(void) {
    test_unlocked = NULL;
    bp_trace_value(BP_TRACE_ID(BP_PROBE_U32, number, 1), test_interrupted++);
    test_unlocked = test_interrupt;
}

void test_interrupts(bool on) {
    test_unlocked = on ? test_interrupt : NULL;
}

/* 250 names, so that the later ones have numbers above 255. */
#define TEST_10(name) \
    BP_MARK(name##0); \
    BP_MARK(name##1); \
    BP_MARK(name##2); \
    BP_MARK(name##3); \
    BP_MARK(name##4); \
    BP_MARK(name##5); \
    BP_MARK(name##6); \
    BP_MARK(name##7); \
    BP_MARK(name##8); \
    BP_MARK(name##9)
#define TEST_50(name) \
    TEST_10(name##0); \
    TEST_10(name##1); \
    TEST_10(name##2); \
    TEST_10(name##3); \
    TEST_10(name##4)

void test_names(void) {
    TEST_50(a);
    TEST_50(b);
    TEST_50(c);
    TEST_50(d);
    TEST_50(e);
}

void test_wide_mark(void) {
    BP_MARK(wide_mark);
}

void test_wide_value(uint32_t value) {
    BP_VALUE(wide_value, value);
}

void test_wide_range(void) {
    BP_RANGE_BEGIN(wide_range);
    BP_RANGE_END(wide_range);
}

/* Events first to first + count - 1. Each one has its number as its value. What stands between two
 * of them follows from the number, too. */
void test_events(uint32_t first, uint32_t count) {
    static const uint32_t steps[] = {1, 7, 100, 3, 0x1234567, 2, 0, 5, 0x40000000};
    for (uint32_t i = first; i != first + count; i++) {
        test_cycles += steps[i % 9];
        if (i % 5 == 3) {
            BP_VALUE(wide_value, i);
        } else {
            BP_VALUE(number, i);
        }
    }
}

/* Events first to first + count - 1 of a core. Writes down when each one was, on `test_cycles`. */
void test_core_events(uint32_t core, uint32_t first, uint32_t count, uint64_t *times) {
    static const uint32_t steps[] = {1, 7, 100, 3, 2, 0, 5, 1000, 60};
#if BP_CFG_TRACE_CORES > 1
    test_core = core;
#else
    (void)core;
#endif
    for (uint32_t i = first; i != first + count; i++) {
        uintptr_t before = bp_arch_lock();
        test_cycles += i % 4999 == 4998 ? 0x1234567 : steps[i % 9];
        bp_arch_unlock(before);
        test_reads_first = true;
        if (i % 5 == 3) {
            BP_VALUE(wide_value, i);
        } else {
            BP_VALUE(number, i);
        }
        times[i] = test_first;
    }
}

uint8_t *test_ring(uint32_t core) {
    return (uint8_t *)&bp_trace_ring[core];
}

size_t test_ring_bytes(void) {
    return sizeof bp_trace_ring[0];
}

#else
typedef int test_no_probes; /* a file must have something */
#endif
