/* SPDX-License-Identifier: Apache-2.0 */
/* One dense layer, 64 outputs of 128 inputs, int8: in plain C, on the dot-product engine of the
 * board ibex-rtl, and on both at once with half of the outputs each. */

#include <stdint.h>

#include "engine.h"

enum { OUTPUTS = 64, INPUTS = 128, ENGINE_SHARE = OUTPUTS / 2 };

static int8_t inputs[INPUTS] __attribute__((aligned(4)));
static int8_t weights[OUTPUTS][INPUTS] __attribute__((aligned(4)));
static int32_t outputs[OUTPUTS];

/* Values that repeat after 251 and 253, so that no two rows are equal. */
static void prepare(void) {
    for (int i = 0; i < INPUTS; i++) {
        inputs[i] = (int8_t)(i * 7 % 251 - 125);
    }
    for (int i = 0; i < OUTPUTS * INPUTS; i++) {
        weights[i / INPUTS][i % INPUTS] = (int8_t)(i * 11 % 253 - 126);
    }
    for (int row = 0; row < OUTPUTS; row++) {
        outputs[row] = 0;
    }
}

/* Computes the same sums in another way: by columns, and in 64 bits. */
static int check(void) {
    int64_t sums[OUTPUTS] = {0};
    for (int i = 0; i < INPUTS; i++) {
        for (int row = 0; row < OUTPUTS; row++) {
            sums[row] += (int64_t)inputs[i] * weights[row][i];
        }
    }
    for (int row = 0; row < OUTPUTS; row++) {
        if (outputs[row] != sums[row]) {
            return row + 1;
        }
    }
    return 0;
}

static void rows_in_c(int first, int end) {
    for (int row = first; row < end; row++) {
        int32_t sum = 0;
        for (int i = 0; i < INPUTS; i++) {
            sum += inputs[i] * weights[row][i];
        }
        outputs[row] = sum;
    }
}

/* The compiler does not see the engine's accesses. This makes sure that the engine's input is in
 * RAM before it starts, and that its output is read after it has ended. */
static void memory_is_current(void) {
    __asm__ volatile("" : : : "memory");
}

static void start_engine(uint32_t rows) {
    memory_is_current();
    ENGINE_VECTOR = (uint32_t)inputs;
    ENGINE_MATRIX = (uint32_t)weights;
    ENGINE_OUT = (uint32_t)outputs;
    ENGINE_LENGTH = INPUTS;
    ENGINE_ROWS = rows;
    ENGINE_STRIDE = INPUTS;
    ENGINE_CONTROL = 1;
}

static void wait_for_engine(void) {
    while ((ENGINE_STATUS & ENGINE_STATUS_BUSY) != 0) {
    }
    memory_is_current();
}

void dense_in_c(void);
void dense_by_engine(void);
void dense_by_both(void);

void dense_in_c(void) {
    rows_in_c(0, OUTPUTS);
}

void dense_by_engine(void) {
    start_engine(OUTPUTS);
    wait_for_engine();
}

void dense_by_both(void) {
    start_engine(ENGINE_SHARE);
    rows_in_c(ENGINE_SHARE, OUTPUTS);
    wait_for_engine();
}

void dense_in_c_setup(void);
void dense_by_engine_setup(void);
void dense_by_both_setup(void);
int dense_in_c_check(void);
int dense_by_engine_check(void);
int dense_by_both_check(void);

void dense_in_c_setup(void) {
    prepare();
}

void dense_by_engine_setup(void) {
    prepare();
}

void dense_by_both_setup(void) {
    prepare();
}

int dense_in_c_check(void) {
    return check();
}

int dense_by_engine_check(void) {
    return check();
}

int dense_by_both_check(void) {
    return check();
}
