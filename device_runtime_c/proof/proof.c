/* SPDX-License-Identifier: Apache-2.0 */
/* Functions whose work is known. `boardprof doctor -b BOARD` checks a board's counters and its
 * stack with them. Not part of the agent.
 *
 * A firmware project compiles both files of this folder with its own sources that have BP_FUNCTION;
 * then `boardprof doctor -p PORT` checks it, too. */

#include <stdint.h>

#include "boardprof/bp_function.h"

void proof_rounds(uint32_t rounds);
uint32_t proof_depth(uint32_t depth);

/* A loop of `rounds` rounds that no compiler can remove. Each round has the same number of
 * instructions. */
void proof_rounds(uint32_t rounds) {
    for (uint32_t i = 0; i < rounds; i++) {
        __asm__ volatile("" : "+r"(i));
    }
}

/* `depth` equal stack frames, one below the other. Returns `depth`. */
__attribute__((noinline)) uint32_t proof_depth(uint32_t depth) {
    volatile uint32_t frame[4] = {depth, 0, 0, 0};
    if (depth != 0) {
        frame[1] = proof_depth(depth - 1) + 1;
    }
    return frame[1];
}

BP_FUNCTION(proof_rounds);
BP_FUNCTION(proof_depth);
