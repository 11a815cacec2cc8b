/* SPDX-License-Identifier: Apache-2.0 */
/* Two tasks and an interrupt. At each tick the timer's interrupt takes a sample of a sensor. The
 * task `control` has the higher priority and uses the newest sample, in every fifth tick. The task
 * `report` computes statistics of all samples, for most of the time. The agent runs in the loop of
 * main, when both have nothing to do. */

#include "kernel.h"

#include "boardprof/bp.h"
#include "boardprof/bp_function.h"
#include "boardprof/bp_port.h"
#include "boardprof/bp_trace.h"
#include "hal.h"

enum { SAMPLES = 64, TARGET = 500 };

static volatile int32_t samples[SAMPLES];
static volatile uint32_t sampled;
static volatile int32_t power;

/* A simulated sensor: it follows the power, with some noise. */
void k_on_tick(void) {
    static int32_t level;
    static uint32_t noise = 1;
    noise = noise * 1664525u + 1013904223u;
    level += (power - level) / 16 + (int32_t)(noise >> 28) - 8;
    samples[sampled % SAMPLES] = level;
    sampled++;
    BP_VALUE(level, level);
}

static void control(void) {
    int32_t sum = 0;
    for (;;) {
        k_sleep(5);
        BP_RANGE_BEGIN(control);
        int32_t error = TARGET - samples[(sampled - 1) % SAMPLES];
        sum += error;
        power = error / 2 + sum / 32;
        BP_VALUE(power, power);
        BP_RANGE_END(control);
    }
}

/* The variance of n values, 1 or more. */
__attribute__((noinline)) uint32_t variance(const int32_t *values, uint32_t n) {
    int32_t sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += values[i];
    }
    int32_t mean = sum / (int32_t)n;
    uint32_t squares = 0;
    for (uint32_t i = 0; i < n; i++) {
        int32_t away = values[i] - mean;
        squares += (uint32_t)(away * away);
    }
    return squares / n;
}
BP_FUNCTION(variance);

static void report(void) {
    int32_t values[SAMPLES];
    for (;;) {
        for (uint32_t i = 0; i < SAMPLES; i++) {
            values[i] = samples[i];
        }
        BP_RANGE_BEGIN(variance);
        uint32_t result = variance(values, SAMPLES);
        BP_RANGE_END(variance);
        BP_VALUE(result, result);
        k_sleep(1);
    }
}

static uint64_t control_stack[128], report_stack[128];
static k_task_t control_task, report_task;

int main(void) {
    hal_init();
    bp_port_init();
    bp_init();
    k_create(&control_task, "control", control, 2, control_stack, sizeof control_stack);
    k_create(&report_task, "report", report, 1, report_stack, sizeof report_stack);
    k_start(TIMER_HZ / 1000);
    for (;;) {
        bp_poll();
    }
}
