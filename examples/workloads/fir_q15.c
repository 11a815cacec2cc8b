/* SPDX-License-Identifier: Apache-2.0 */
/* A 32-tap Q15 FIR low-pass over a block of 256 samples, as in audio or motor control. */

#include <stddef.h>
#include <stdint.h>

void fir_q15_setup(void);
void fir_q15(void);
int fir_q15_check(void);

enum { TAPS = 32, BLOCK = 256, HISTORY = TAPS - 1 };

/* Minimum-phase low-pass, -3 dB at fs / 8. Not symmetric, so that a reversed filter is detected. */
static const int16_t coefficients[TAPS] = {
    1846, 3985,  6312, 7928, 8032, 6342, 3327, 54, -2306, -3033, -2179, -481, 1067, 1730, 1356, 351,
    -626, -1059, -823, -186, 417,  654,  465,  51, -296,  -384,  -217,  42,   205,  190,  52,   -83,
};

static int16_t input[HISTORY + BLOCK];
static int16_t output[BLOCK];

/* Q30 to Q15: rounds to nearest, halves upwards, and saturates. */
static int16_t narrow(int64_t sum) {
    sum = (sum + (1 << 14)) >> 15;
    if (sum > INT16_MAX) {
        return INT16_MAX;
    }
    return sum < INT16_MIN ? INT16_MIN : (int16_t)sum;
}

/* x holds taps - 1 samples of history, then n new ones. The sum of Q30 products needs 64 bits. */
static void fir(const int16_t *x, const int16_t *h, int16_t *y, size_t n, size_t taps) {
    for (size_t i = 0; i < n; i++) {
        const int16_t *newest = x + i + taps - 1;
        int64_t sum = 0;
        for (size_t k = 0; k < taps; k++) {
            sum += (int32_t)h[k] * *(newest - k);
        }
        y[i] = narrow(sum);
    }
}

void fir_q15(void) {
    fir(input, coefficients, output, BLOCK, TAPS);
}

/* An almost full-scale square wave with noise: the filter overshoots at its edges and saturates. */
void fir_q15_setup(void) {
    uint32_t state = 3;
    for (size_t i = 0; i < HISTORY + BLOCK; i++) {
        state = state * 1664525u + 1013904223u;
        int32_t noise = (int32_t)(state >> 20) - 2048;
        int32_t level = i / 32 % 2 ? -30000 : 30000;
        input[i] = (int16_t)(level + noise);
    }
    for (size_t i = 0; i < BLOCK; i++) {
        output[i] = 0;
    }
}

/* The exact Q30 sum, gathered from the oldest sample to the newest. */
static int64_t reference(size_t i) {
    int64_t sum = 0;
    for (size_t m = i; m <= i + HISTORY; m++) {
        sum += (int64_t)input[m] * coefficients[i + HISTORY - m];
    }
    return sum;
}

/* True if value is the Q15 number nearest to the exact sum, or the limit that the sum exceeded. */
static int is_nearest(int16_t value, int64_t sum) {
    int64_t rest = sum - (int64_t)value * 32768;
    return (rest >= -16384 || value == INT16_MIN) && (rest < 16384 || value == INT16_MAX);
}

/* Returns 0; 1 if an output is not the nearest to its exact value; 2 if the checksum is wrong. */
int fir_q15_check(void) {
    uint32_t checksum = 0;
    for (size_t i = 0; i < BLOCK; i++) {
        if (!is_nearest(output[i], reference(i))) {
            return 1;
        }
        checksum = checksum * 31u + (uint32_t)((int32_t)output[i] + 32768);
    }
    return checksum == 0x1ccd37c7u ? 0 : 2; /* independently computed with numpy */
}
