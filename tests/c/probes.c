/* SPDX-License-Identifier: Apache-2.0 */
/* Probes of each kind, for the tests to call. */

#include "boardprof/bp.h"
#include "boardprof/bp_trace.h"
#include "bp_arch.h"
#include "bp_internal.h"
#include "probes.h"

#if BP_CFG_TRACE

/* The names of probes_many.c are linked behind these. */
void test_mark(void) {
    BP_MARK(one_mark);
}

void test_shared(void) {
    BP_MARK(shared);
}

void test_u32(uint32_t value) {
    BP_VALUE(one_u32, value);
}

void test_i32(int32_t value) {
    BP_VALUE(one_i32, value);
}

void test_f32(float value) {
    BP_VALUE(one_f32, value);
}

void test_i8(int8_t value) {
    BP_VALUE(one_i8, value);
}

void test_begin(void) {
    BP_RANGE_BEGIN(one_range);
}

void test_end(void) {
    BP_RANGE_END(one_range);
}

void test_scope(bool early) {
    BP_RANGE(one_scope);
    if (early) {
        return;
    }
    BP_MARK(one_mark);
}

void test_isr_enter(void) {
    BP_ISR_ENTER(one_isr);
}

void test_isr_exit(void) {
    BP_ISR_EXIT(one_isr);
}

void test_isr_number(uint32_t number) {
    BP_ISR_ENTER_NUMBER(number);
    BP_ISR_EXIT_NUMBER();
}

void test_task(uint32_t task) {
    BP_TASK_SWITCH((const void *)(uintptr_t)task);
}

void test_alloc(uint32_t block, uint32_t bytes) {
    BP_ALLOC((const void *)(uintptr_t)block, (size_t)bytes);
}

void test_free(uint32_t block) {
    BP_FREE((const void *)(uintptr_t)block);
}

/// Many events ///

void test_flood(uint32_t first, uint32_t count, uint32_t seed, uint64_t *times) {
    for (uint32_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        uint64_t step = seed >> 24;
        if (seed >> 16 == 0x1234) {
            step <<= 20; /* up to 2^28: a long time */
        }
        __atomic_fetch_add(&test_cycles, step, __ATOMIC_SEQ_CST);
        times[i] = __atomic_load_n(&test_cycles, __ATOMIC_SEQ_CST);
        BP_VALUE(flood, first + i);
    }
}

void test_core_flood(uint32_t core, uint32_t first, uint32_t count, uint64_t *times) {
#if BP_CFG_TRACE_CORES > 1
    test_core = core;
#else
    (void)core;
#endif
    test_flood(first, count, first + core, times);
}

uintptr_t test_lock_depth(void) {
#if BP_CFG_TRACE_CORES > 1
    return 0;
#else
    return test_locks;
#endif
}

/// Memory that a reset has left ///

void test_forget(void) {
    for (unsigned core = 0; core < BP_CFG_TRACE_CORES; core++) {
        bp_trace_ring_t *ring = &bp_trace_ring[core];
        ring->read = ring->at = ring->begin;
        ring->lapped = ring->ended = false;
    }
}

uint8_t *test_ring(void) {
    return (uint8_t *)&bp_trace_ring[0];
}

size_t test_ring_size(void) {
    return sizeof bp_trace_ring[0];
}

uint8_t *test_words(void) {
    return (uint8_t *)bp_trace_words[0];
}

#endif
