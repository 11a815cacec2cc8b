/* SPDX-License-Identifier: Apache-2.0 */
/* Linux clocks: wall time that NTP does not slew, and the calling thread's CPU time. */

#define _GNU_SOURCE
#include <errno.h>
#include <time.h>

#include "boardprof/bp.h"

static const char bp_linux_clock_name[] BP_ROM = "clock";
static const char bp_wall_name[] BP_ROM = "duration_time"; /* as in perf */
static const char bp_cpu_name[] BP_ROM = "task-clock";
static const char bp_wall_source[] BP_ROM = "CLOCK_MONOTONIC_RAW";
static const char bp_cpu_source[] BP_ROM = "CLOCK_THREAD_CPUTIME_ID";

static bp_counter_t bp_linux_clocks[2];

/* Returns 0 if the clock was refused. */
static uint64_t bp_clock_ns(clockid_t clock) {
    struct timespec now = {0};
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void bp_probe_clock(bp_counter_t *out, const char *name, const char *source,
                           clockid_t clock) {
    struct timespec now;
    *out = (bp_counter_t){.name = name, .source = source, .hz = 1000000000u, .bits = 64};
    out->status = BP_COUNTER_OK;
    out->counts_in_sleep = clock == CLOCK_MONOTONIC_RAW;
    if (clock_gettime(clock, &now) != 0) {
        out->status = BP_COUNTER_REFUSED;
        out->detail = (uint32_t)errno;
    }
}

static void bp_linux_clock_init(void) {
    bp_probe_clock(&bp_linux_clocks[0], bp_wall_name, bp_wall_source, CLOCK_MONOTONIC_RAW);
    bp_probe_clock(&bp_linux_clocks[1], bp_cpu_name, bp_cpu_source, CLOCK_THREAD_CPUTIME_ID);
}

/* Wall time is innermost: reading the CPU clock is a system call, reading the wall clock is not
 * (vdso(7)). */
static void bp_linux_clock_start(void *state) {
    bp_linux_clock_t *s = state;
    s->cpu_start = bp_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    s->wall_start = bp_clock_ns(CLOCK_MONOTONIC_RAW);
}

static void bp_linux_clock_stop(void *state) {
    bp_linux_clock_t *s = state;
    s->wall_stop = bp_clock_ns(CLOCK_MONOTONIC_RAW);
    s->cpu_stop = bp_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static void bp_linux_clock_encode(uint8_t *out, const void *state) {
    bp_linux_clock_put(out, state);
}

static void bp_linux_clock_counter(bp_counter_t *out, uint8_t index) {
    *out = bp_linux_clocks[index];
}

const bp_collector_t bp_collector_linux_clock BP_ROM = {
    .name = bp_linux_clock_name,
    .init = bp_linux_clock_init,
    .start = bp_linux_clock_start,
    .stop = bp_linux_clock_stop,
    .encode = bp_linux_clock_encode,
    .counter = bp_linux_clock_counter,
    .layout_crc = BP_LINUX_CLOCK_CRC,
    .schema_id = BP_LINUX_CLOCK_SCHEMA,
    .body_length = BP_LINUX_CLOCK_LEN,
    .version = BP_LINUX_CLOCK_VERSION,
    .state_bytes = sizeof(bp_linux_clock_t),
    .counters = 2,
};
