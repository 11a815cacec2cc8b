/* SPDX-License-Identifier: Apache-2.0 */
/* A function that records who called it and when, so that a board can tell who had it. */
#include <stdint.h>

#ifdef __linux__
#include <time.h>
#define MOST 65536
#else
#include "boardprof/bp_port.h"
#define MOST 4096
#endif

static uint64_t calls[MOST][3];
static uint32_t count;

static uint64_t now_ns(void) {
#ifdef __linux__
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
#else
    return bp_port_ticks() * 100; /* of 10 MHz */
#endif
}

/* Take half a millisecond. */
uint32_t work(uint32_t job) {
    uint64_t began = now_ns();
    uint64_t ended;
    do {
        ended = now_ns();
    } while (ended < began + 500000);
    if (count < MOST) {
        calls[count][0] = job;
        calls[count][1] = began;
        calls[count][2] = ended;
    }
    count++;
    return job;
}

uint32_t call_count(void) {
    return count;
}

/* Copy calls from number `from` on: the job, and begin and end in nanoseconds. */
void recorded(uint64_t *out, uint32_t rows, uint32_t from) {
    for (uint32_t i = 0; i < rows; i++)
        for (int k = 0; k < 3; k++)
            out[3 * i + (uint32_t)k] = calls[from + i][k];
}
