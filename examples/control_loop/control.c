/* SPDX-License-Identifier: Apache-2.0 */
/* A low-pass filter and a proportional-integral controller, with a range around each. */

#include "control.h"

#include "boardprof/bp_function.h"
#include "boardprof/bp_trace.h"

enum { TAPS = 512 /* a power of two */, TARGET = 3000, POWER_MAX = 1000 };

static int16_t history[TAPS]; /* a ring */
static int newest;
static int32_t integral;
static volatile int32_t power;

/* A simulated motor: it follows its power slowly, and the sensor is noisy. */
int16_t sensor_read(void) {
    static int32_t speed;
    static uint32_t noise = 1;
    noise = noise * 1664525u + 1013904223u;
    speed += (8 * power - speed) / 64;
    return (int16_t)(speed + (int32_t)(noise >> 28) - 8);
}

/* The mean of the batch after a low-pass filter. */
static int32_t filter(const int16_t readings[BATCH]) {
    BP_RANGE(filter);
    int32_t total = 0;
    for (int i = 0; i < BATCH; i++) {
        newest = (newest + 1) % TAPS;
        history[newest] = readings[i];
        int32_t sum = 0;
        for (int k = 0; k < TAPS; k++) {
            sum += history[(newest - k) & (TAPS - 1)] * (TAPS - k);
        }
        total += sum / (TAPS * (TAPS + 1) / 2);
    }
    return total / BATCH;
}

static int32_t clamp(int32_t value, int32_t maximum) {
    return value < 0 ? 0 : value > maximum ? maximum : value;
}

int32_t control(const int16_t readings[BATCH]) {
    BP_RANGE(control);
    int32_t speed = filter(readings);
    int32_t error = TARGET - speed;
    integral = clamp(integral + error, POWER_MAX * 64);
    power = clamp(error / 8 + integral / 64, POWER_MAX);
    BP_VALUE(speed, speed);
    if (power == POWER_MAX) {
        BP_MARK(saturated);
    }
    return power;
}

BP_FUNCTION(control); /* so that the host can also call it */
