/* SPDX-License-Identifier: Apache-2.0 */
/* Functions whose work is known: `boardprof doctor -b BOARD` holds a board's counters and its stack
 * against them. No part of the agent. */

#include <stdint.h>

void proof_rounds(uint32_t rounds);
uint32_t proof_depth(uint32_t depth);

/* So many rounds of a loop that nothing may take out: some instructions each, always as many. */
void proof_rounds(uint32_t rounds) {
    for (uint32_t i = 0; i < rounds; i++) {
        __asm__ volatile("" : "+r"(i));
    }
}

/* So many frames, one below the other, all alike. Returns `depth`. */
__attribute__((noinline)) uint32_t proof_depth(uint32_t depth) {
    volatile uint32_t frame[4] = {depth, 0, 0, 0};
    if (depth != 0) {
        frame[1] = proof_depth(depth - 1) + 1;
    }
    return frame[1];
}
