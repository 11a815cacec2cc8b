/* SPDX-License-Identifier: Apache-2.0 */
/* The recorder of probes under the compiler's sanitizers, with interrupts at any instruction: a
 * timer's signal records an event unless the lock is taken. Recording starts again and again
 * meanwhile. Each event has a number, so that one of an earlier recording is seen. */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* setitimer */
#endif

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

#include "bp_internal.h"
#include "firmware.h"
#include "port_memory.h"

enum { TEST_ROUNDS = 90, TEST_EVERY_US = 20, TEST_EVENTS = 3, TEST_MOST_S = 30 };

#define TEST_CHECK(condition)                                               \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

static volatile uint32_t test_made;

/* It may have found that recording is on before that was stopped, as a task may that is interrupted
 * then. So it does not look. */
static void test_interrupt(int signal) {
    (void)signal;
    if (test_locks == 0) {
        bp_trace_value(BP_TRACE_ID(BP_PROBE_U32, number, 1), test_made);
        test_made++;
    }
}

static void test_interrupts(suseconds_t every_us) {
    struct itimerval timer = {.it_interval.tv_usec = every_us, .it_value.tv_usec = every_us};
    TEST_CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

/* Returns the first byte of the reply. */
static uint8_t test_call(bp_packed_t *function, uint8_t argc, uint8_t first, uint8_t second) {
    static uint8_t out[256];
    const uint8_t in[] = {first, second};
    bp_call_t call = {
        .in = in, .in_end = in + argc, .out = out, .out_end = out + sizeof out, .argc = argc};
    TEST_CHECK(function(&call) == 0);
    return out[0];
}

/* The ring has the events from some one on, none left out, up to the last one, and nothing else. */
static void test_ring_is(uint32_t from, uint8_t mode) {
    const bp_trace_ring_t *ring = &bp_trace_ring[0];
    uint32_t words = (uint32_t)(ring->at - ring->begin);
    uint32_t number = (uint32_t)BP_TRACE_ID(BP_PROBE_U32, number, 1);
    TEST_CHECK(ring->begin == bp_trace_words[0] && ring->mode == mode);
    TEST_CHECK(ring->dropped == 0 && ring->pending == 0 && ring->before == 0);
    TEST_CHECK(words % 2 == 0 && words >= 2 * TEST_EVENTS);
    TEST_CHECK(test_made - words / 2 >= from);
    for (uint32_t i = 0; i < words; i += 2) {
        TEST_CHECK((ring->begin[i] & 0xffu) == number);
        TEST_CHECK(ring->begin[i + 1] == test_made - (words - i) / 2);
    }
}

int main(void) {
    time_t end = time(NULL) + TEST_MOST_S;
    TEST_CHECK(signal(SIGALRM, test_interrupt) != SIG_ERR);
    test_port_reset();
    test_cycles_step = 1;
    for (int round = 0; round < TEST_ROUNDS; round++) {
        uint8_t mode = (uint8_t)(round % 3);
        uint32_t from = test_made;
        if (round > 0) {
            test_interrupts(TEST_EVERY_US);
        }
        test_call(bp_trace_start, 2, BP_TRACE_EVENTS, mode);
        test_interrupts(TEST_EVERY_US);
        for (uint32_t began = test_made; test_made - began < TEST_EVENTS;) {
            TEST_CHECK(time(NULL) < end);
        }
        test_interrupts(0);
        test_ring_is(from, mode);
        bool is_kept = test_call(bp_trace_kept, 1, 0, 0) != 0xc0; /* nil */
        TEST_CHECK(is_kept == (mode == BP_TRACE_OVERWRITE));
    }
    TEST_CHECK(test_locks == 0);
    printf("%d recordings\n", TEST_ROUNDS);
    return 0;
}
