// SPDX-License-Identifier: Apache-2.0
// A matrix product with two macros to tune: how many rows of A are taken before the next column of
// B, and how often the inner loop is unrolled.

#include <stdint.h>

#ifndef TILE
#define TILE 1
#endif
#ifndef UNROLL
#define UNROLL 1
#endif

#define SIZE 32
#define PRAGMA(text) _Pragma(#text)
#define UNROLLED(times) PRAGMA(GCC unroll times)

void matmul(const int8_t a[SIZE * SIZE], const int8_t b[SIZE * SIZE], int32_t c[SIZE * SIZE]);

void matmul(const int8_t a[SIZE * SIZE], const int8_t b[SIZE * SIZE], int32_t c[SIZE * SIZE]) {
    for (int row = 0; row < SIZE; row += TILE) {
        for (int column = 0; column < SIZE; column++) {
            int32_t sums[TILE] = {0};
            UNROLLED(UNROLL)
            for (int k = 0; k < SIZE; k++) {
                int32_t factor = b[k * SIZE + column];
                UNROLLED(TILE)
                for (int i = 0; i < TILE; i++) {
                    sums[i] += a[(row + i) * SIZE + k] * factor;
                }
            }
            UNROLLED(TILE)
            for (int i = 0; i < TILE; i++) {
                c[(row + i) * SIZE + column] = sums[i];
            }
        }
    }
}
