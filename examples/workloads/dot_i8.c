/* SPDX-License-Identifier: Apache-2.0 */
/* Scores one int8 embedding against a table of sixteen: 16 dot products of 256 elements. */

#include <stddef.h>
#include <stdint.h>

void dot_i8_setup(void);
void dot_i8(void);
int dot_i8_check(void);

enum { ROWS = 16, LENGTH = 256 };

static int8_t query[LENGTH];
static int8_t table[ROWS][LENGTH];
static int32_t scores[ROWS];

/* The largest sum, 256 * 128 * 128 = 2^22, is far below the limit of int32. */
static int32_t dot(const int8_t *a, const int8_t *b, size_t n) {
    int32_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += (int32_t)a[i] * b[i];
    }
    return sum;
}

void dot_i8(void) {
    for (size_t row = 0; row < ROWS; row++) {
        scores[row] = dot(query, table[row], LENGTH);
    }
}

/* Top byte of a linear congruential generator: its low bits have short periods. */
static int8_t random_i8(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return (int8_t)((int32_t)(*state >> 24) - 128);
}

void dot_i8_setup(void) {
    uint32_t state = 1;
    for (size_t i = 0; i < LENGTH; i++) {
        query[i] = random_i8(&state);
    }
    for (size_t row = 0; row < ROWS; row++) {
        for (size_t i = 0; i < LENGTH; i++) {
            table[row][i] = random_i8(&state);
        }
        scores[row] = 0;
    }
}

/* The dot product is linear: the scores add up to the query times the column sums. */
static int32_t expected_total(void) {
    int32_t total = 0;
    for (size_t i = 0; i < LENGTH; i++) {
        int32_t column = 0;
        for (size_t row = 0; row < ROWS; row++) {
            column += table[row][i];
        }
        total += column * query[i];
    }
    return total;
}

/* Returns 0; 1 if the total is wrong; 2 + row for the first wrong score. */
int dot_i8_check(void) {
    /* Independently computed with numpy: table.astype(int64) @ query. */
    static const int32_t expected[ROWS] = {
        -18084, -203651, 91988, -88,   54012, -55120, -109467, -1550,
        14935,  78487,   17954, 11602, 32335, 39996,  114836,  -11654,
    };
    int32_t total = 0;
    for (size_t row = 0; row < ROWS; row++) {
        total += scores[row];
    }
    if (total != expected_total()) {
        return 1;
    }
    for (int row = 0; row < ROWS; row++) {
        if (scores[row] != expected[row]) {
            return 2 + row;
        }
    }
    return 0;
}
