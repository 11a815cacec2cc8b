/* SPDX-License-Identifier: Apache-2.0 */
/* Single-precision matrix product, (6 x 12) times (12 x 9): a small filter or control update. */

#include <stddef.h>
#include <stdint.h>

void matmul_f32_setup(void);
void matmul_f32(void);
int matmul_f32_check(void);

enum { ROWS = 6, DEPTH = 12, COLS = 9 };

static float a[ROWS * DEPTH];
static float b[DEPTH * COLS];
static float product[ROWS * COLS];

static void matmul(const float *lhs, const float *rhs, float *out, size_t rows, size_t depth,
                   size_t cols) {
    for (size_t row = 0; row < rows; row++) {
        for (size_t col = 0; col < cols; col++) {
            float sum = 0.0f;
            for (size_t k = 0; k < depth; k++) {
                sum += lhs[row * depth + k] * rhs[k * cols + col];
            }
            out[row * cols + col] = sum;
        }
    }
}

void matmul_f32(void) {
    matmul(a, b, product, ROWS, DEPTH, COLS);
}

/*
 * Quarters in [-16, 16): every product is a multiple of 1/16 and every sum stays below 2^12, so
 * that 24 bits hold all of them. The result is exact in any order, with an FPU, a fused
 * multiply-add or a software library alike.
 */
static float random_quarters(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return (float)((int32_t)(*state >> 25) - 64) * 0.25f;
}

void matmul_f32_setup(void) {
    uint32_t state = 4;
    for (size_t i = 0; i < ROWS * DEPTH; i++) {
        a[i] = random_quarters(&state);
    }
    for (size_t i = 0; i < DEPTH * COLS; i++) {
        b[i] = random_quarters(&state);
    }
    for (size_t i = 0; i < ROWS * COLS; i++) {
        product[i] = 0.0f;
    }
}

/* Sixteen times the exact element, in integers. */
static int32_t reference(size_t row, size_t col) {
    int32_t sum = 0;
    for (size_t k = DEPTH; k-- > 0;) {
        sum += (int32_t)(b[k * COLS + col] * 4.0f) * (int32_t)(a[row * DEPTH + k] * 4.0f);
    }
    return sum;
}

/* Returns 0; 1 if an element is not exact; 2 if the checksum is wrong. */
int matmul_f32_check(void) {
    uint32_t checksum = 0;
    for (size_t i = 0; i < ROWS * COLS; i++) {
        int32_t exact = reference(i / COLS, i % COLS);
        if (product[i] * 16.0f != (float)exact) {
            return 1;
        }
        checksum = checksum * 31u + (uint32_t)((int32_t)(product[i] * 16.0f) + 65536);
    }
    return checksum == 0x1ada6dc9u ? 0 : 2; /* independently computed with numpy */
}
