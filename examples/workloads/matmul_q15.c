/* SPDX-License-Identifier: Apache-2.0 */
/* Q15 matrix product, (12 x 24) times (24 x 16), with a 64-bit sum, rounding and saturation. */

#include <stddef.h>
#include <stdint.h>

void matmul_q15_setup(void);
void matmul_q15(void);
int matmul_q15_check(void);

enum { ROWS = 12, DEPTH = 24, COLS = 16 };

static int16_t a[ROWS * DEPTH];
static int16_t b[DEPTH * COLS];
static int16_t product[ROWS * COLS];

/* Q30 to Q15: rounds to nearest, halves upwards, and saturates. */
static int16_t narrow(int64_t sum) {
    sum = (sum + (1 << 14)) >> 15;
    if (sum > INT16_MAX) {
        return INT16_MAX;
    }
    return sum < INT16_MIN ? INT16_MIN : (int16_t)sum;
}

static void matmul(const int16_t *lhs, const int16_t *rhs, int16_t *out, size_t rows, size_t depth,
                   size_t cols) {
    for (size_t row = 0; row < rows; row++) {
        for (size_t col = 0; col < cols; col++) {
            int64_t sum = 0;
            for (size_t k = 0; k < depth; k++) {
                sum += (int32_t)lhs[row * depth + k] * rhs[k * cols + col];
            }
            out[row * cols + col] = narrow(sum);
        }
    }
}

void matmul_q15(void) {
    matmul(a, b, product, ROWS, DEPTH, COLS);
}

static int16_t random_q15(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return (int16_t)((int32_t)(*state >> 16) - 32768);
}

/* b is halved, so that most elements fit and about one in five saturates. */
void matmul_q15_setup(void) {
    uint32_t state = 5;
    for (size_t i = 0; i < ROWS * DEPTH; i++) {
        a[i] = random_q15(&state);
    }
    for (size_t i = 0; i < DEPTH * COLS; i++) {
        b[i] = (int16_t)(random_q15(&state) / 2);
    }
    for (size_t i = 0; i < ROWS * COLS; i++) {
        product[i] = 0;
    }
}

/* The exact Q30 sum, last term first. */
static int64_t reference(size_t row, size_t col) {
    int64_t sum = 0;
    for (size_t k = DEPTH; k-- > 0;) {
        sum += (int64_t)b[k * COLS + col] * a[row * DEPTH + k];
    }
    return sum;
}

/* True if value is the Q15 number nearest to the exact sum, or the limit that the sum exceeded. */
static int is_nearest(int16_t value, int64_t sum) {
    int64_t rest = sum - (int64_t)value * 32768;
    return (rest >= -16384 || value == INT16_MIN) && (rest < 16384 || value == INT16_MAX);
}

/* Returns 0; 1 if an element is not the nearest to its exact value; 2 if the checksum is wrong. */
int matmul_q15_check(void) {
    uint32_t checksum = 0;
    for (size_t i = 0; i < ROWS * COLS; i++) {
        if (!is_nearest(product[i], reference(i / COLS, i % COLS))) {
            return 1;
        }
        checksum = checksum * 31u + (uint32_t)((int32_t)product[i] + 32768);
    }
    return checksum == 0x95f23674u ? 0 : 2; /* independently computed with numpy */
}
