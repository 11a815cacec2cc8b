/* SPDX-License-Identifier: Apache-2.0 */
/* Does all that probes and the agent do with interrupts off, in its worst cases. What is written
 * into rings and slots here is what time, other tasks and the host would leave there. benchmarks/
 * probes.py puts three lines before it: they include bp_internal.h, and define END and WORST. With
 * WORST 0, all names have numbers below 256, and the ring is never overwritten. */

#include "boardprof/bp_tasks.h"

#define TEN(do, name) \
    do                \
        (name##0);    \
    do                \
        (name##1);    \
    do                \
        (name##2);    \
    do                \
        (name##3);    \
    do                \
        (name##4);    \
    do                \
        (name##5);    \
    do                \
        (name##6);    \
    do                \
        (name##7);    \
    do                \
        (name##8);    \
    do                \
    (name##9)
#define PASS(name)        \
    BP_RANGE_BEGIN(name); \
    BP_RANGE_END(name)

/* 120 ranges, so that names after them have numbers above 255. */
static void many_ranges(void) {
#if WORST
    TEN(PASS, a);
    TEN(PASS, b);
    TEN(PASS, c);
    TEN(PASS, d);
    TEN(PASS, e);
    TEN(PASS, f);
    TEN(PASS, g);
    TEN(PASS, h);
    TEN(PASS, i);
    TEN(PASS, j);
    TEN(PASS, k);
    TEN(PASS, l);
#endif
}

static void call(bp_packed_t *function, uint8_t argc, uint8_t first, uint8_t second) {
    static uint8_t out[256];
    uint8_t in[] = {first, second};
    bp_call_t packed = {
        .in = in, .in_end = in + argc, .out = out, .out_end = out + sizeof out, .argc = argc};
    (void)function(&packed);
}

/* The records that are there, and those of a writer that is a lap ahead, go to a stream that is
 * empty. */
static void drain(bool lapped) {
    bp_trace_ring_t *ring = &bp_trace_ring[0];
    bp_channel.mode = BP_CHANNEL_CLOSED;
    call(bp_channel_stream, 0, 0, 0);
    if (lapped) {
        ring->read = ring->lap_end = ring->begin + BP_TRACE_WORDS - 4;
    }
    bp_trace_drain();
}

/* The next event begins the ring again, or finds no room. */
static void at_end(void) {
    bp_trace_ring_t *ring = &bp_trace_ring[0];
    ring->at = ring->read = ring->begin + BP_TRACE_WORDS - 2;
    ring->end = ring->begin;
}
static void full(void) {
    bp_trace_ring_t *ring = &bp_trace_ring[0];
    ring->read = ring->at + 2;
    ring->end = ring->begin;
}
static void late(void) {
    bp_trace_ring[0].last -= 0x1000000u;
}
static void soon(void) {
}

static void events(void) {
    static void (*const states[])(void) = {late, soon, at_end, full};
    uint32_t tracing = bp_tracing;
    for (unsigned i = 0; i < 40; i++) { /* twice, since the first event finds none dropped */
        bp_tracing = tracing;           /* a full ring may have stopped it */
        states[i & 1]();
        states[2 + (i >> 1 & 1)]();
        switch ((i >> 2) % 5) {
        case 0:
            BP_MARK(bench_mark);
            break;
        case 1:
            BP_VALUE(bench_value, i);
            break;
        case 2:
            PASS(bench_range);
            break;
        case 3:
            BP_ALLOC(&bp_trace_ring, i);
            break;
        default:
            bp_heap_taken(&bp_trace_ring, 5, 8, NULL);
            bp_heap_replaced(&bp_trace_ring, 8, bp_trace_words, 5, 8, NULL);
            bp_heap_given(bp_trace_words, 8);
            break;
        }
    }
}

static void statistics(void) {
    bp_slot_t *slot = BP_TRACE_SLOT(bench_range);
    PASS(bench_range);
    BP_RANGE_BEGIN(bench_range); /* the longest so far, and all sums carry */
    slot->start -= 0xf0000000u;
    slot->sum[0] = slot->squares[0] = UINT32_MAX;
    BP_RANGE_END(bench_range);
    BP_RANGE_BEGIN(bench_range); /* two passes overlap */
    BP_RANGE_BEGIN(bench_range);
    BP_RANGE_END(bench_range);
    BP_RANGE_END(bench_range);
    BP_RANGE_END(bench_range);   /* an end without a begin */
    BP_RANGE_BEGIN(bench_range); /* it takes too long */
    slot->start -= 0x80000000u;
    bp_slots_update(false);
    BP_RANGE_END(bench_range);
}

static void tasks(void) {
    static uint8_t of[BP_CFG_TASKS];
    for (unsigned i = 0; i < BP_CFG_TASKS; i++) {
        bp_task_add(&of[i], "fifteen letters", of, 1, 0);
    }
    bp_task_rename(&of[0], "fifteen others.");
    bp_task_remove(&of[0]);
    bp_task_add(of + BP_CFG_TASKS, "fifteen letters", of, 1, 0);
    BP_TASK_SWITCH(&of[0]);
    call(bp_trace_tasks, 1, 0, 0);
}

int main(void) {
#ifdef __aarch64__
    bp_port_init(); /* the MMU: without it, all memory is a device's and takes no unaligned access
                     */
#endif
    tasks();
    for (uint8_t mode = 0; mode <= (WORST ? BP_TRACE_OVERWRITE : BP_TRACE_STOP); mode++) {
        for (uint8_t what = 1; what <= 3; what++) {
            call(bp_trace_start, 2, what, mode);
            call(bp_trace_start, 2, what, mode); /* while it records */
            many_ranges();
            BP_TASK_SWITCH(&bp_trace_ring);
            events();
            if ((what & (unsigned)BP_TRACE_STATISTICS) != 0) {
                statistics();
            }
            if (mode != BP_TRACE_OVERWRITE) {
                drain(false);
                drain(true);
            }
            call(bp_trace_calibrate, 0, 0, 0);
            call(bp_trace_slots, 1, 0, 0);
            call(bp_trace_kept, 1, 0, 0);
            call(bp_trace, 0, 0, 0);
            call(bp_trace_stop, 1, what, 0);
        }
    }
    bool wide = BP_TRACE_ID(BP_PROBE_MARK, bench_mark, 1) > 255;
    wide = wide && BP_TRACE_ID(BP_PROBE_U32, bench_value, 1) > 255;
    wide = wide && BP_TRACE_ID(BP_PROBE_RANGE, bench_range, 2) > 255;
    if (wide == (WORST != 0)) {
        END;
    }
    for (;;) {
    }
}
