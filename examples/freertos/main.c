/* SPDX-License-Identifier: Apache-2.0 */
/* A controller that runs every 5 ms, a report of lower priority, and between them the agent. */

#include "FreeRTOS.h"
#include "task.h"

#include "agent.h"
#include "board.h"
#include "boardprof/bp_function.h"
#include "boardprof/bp_trace.h"
#include "hal.h"

enum { SAMPLES = 64, TARGET = 500, REPORT = 1, AGENT = 2, CONTROL = 3 };

static volatile int32_t samples[SAMPLES];
static volatile uint32_t sampled;

/* The variance of n values, 1 or more. */
uint32_t variance(const int32_t *values, uint32_t n);
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

/* A simulated sensor and its controller. */
static void control(void *unused) {
    int32_t level = 0, sum = 0;
    uint32_t noise = 1;
    (void)unused;
    for (;;) {
        vTaskDelay(5);
        BP_RANGE_BEGIN(control);
        int32_t error = TARGET - level;
        sum += error;
        noise = noise * 1664525u + 1013904223u;
        level += (error / 2 + sum / 32 - level) / 16 + (int32_t)(noise >> 28) - 8;
        samples[sampled % SAMPLES] = level;
        sampled++;
        BP_RANGE_END(control);
    }
}

static void report(void *unused) {
    int32_t values[SAMPLES];
    (void)unused;
    for (;;) {
        for (uint32_t i = 0; i < SAMPLES; i++) {
            values[i] = samples[i];
        }
        BP_RANGE_BEGIN(variance);
        uint32_t result = variance(values, SAMPLES);
        BP_RANGE_END(variance);
        BP_VALUE(result, result);
        vTaskDelay(1);
    }
}

static StaticTask_t control_memory, report_memory;
static StackType_t control_stack[256], report_stack[256];

int main(void) {
    hal_init();
    board_init();
    agent_create(AGENT);
    xTaskCreateStatic(control, "control", 256, NULL, CONTROL, control_stack, &control_memory);
    xTaskCreateStatic(report, "report", 256, NULL, REPORT, report_stack, &report_memory);
    vTaskStartScheduler();
    return 1; /* only if there was no memory for the idle task */
}
