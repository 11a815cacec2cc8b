/* SPDX-License-Identifier: Apache-2.0 */
/* A proportional-integral controller, a median, and a square root. Knows nothing of boardprof. */

#include "control.h"

#include <stdbool.h>

enum { POWER_MAX = 1000, GAIN = 4, INTEGRAL_SHIFT = 6, INTEGRAL_MAX = POWER_MAX << INTEGRAL_SHIFT };

static int32_t integral;

static int32_t clamp(int32_t value, int32_t maximum) {
    return value < 0 ? 0 : value > maximum ? maximum : value;
}

int32_t heater_power(int32_t wanted, int32_t measured) {
    int32_t error = wanted - measured;
    integral = clamp(integral + error, INTEGRAL_MAX);
    return clamp(GAIN * error + (integral >> INTEGRAL_SHIFT), POWER_MAX);
}

void heater_power_setup(void) {
    integral = 0;
}

static int16_t median(int16_t a, int16_t b, int16_t c) {
    int16_t low = a < b ? a : b;
    int16_t high = a < b ? b : a;
    return c < low ? low : c > high ? high : c;
}

void smooth(const int16_t *readings, int16_t *out, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        bool inside = i > 0 && i + 1 < n;
        out[i] = inside ? median(readings[i - 1], readings[i], readings[i + 1]) : readings[i];
    }
}

uint32_t isqrt(uint32_t x) {
    uint32_t root = 0;
    for (uint32_t bit = 1u << 30; bit != 0; bit >>= 2) {
        uint32_t trial = root + bit;
        root >>= 1;
        if (x >= trial) {
            x -= trial;
            root += bit;
        }
    }
    return root;
}
