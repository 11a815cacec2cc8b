/* SPDX-License-Identifier: Apache-2.0 */
/* Work for `boardprof doctor`: CV32E40P user manual, "Pipeline Details", hazards. */

#include <stdint.h>

void known_jumps(uint32_t rounds);
void known_load_uses(uint32_t rounds);

/* An instruction uses what the one before it loads. */
void known_load_uses(uint32_t rounds) {
    static volatile uint32_t word;
    uint32_t found;
    for (uint32_t i = 0; i < rounds; i++) {
        __asm__ volatile("lw   %0, 0(%1)\n"
                         "addi %0, %0, 1\n"
                         : "=&r"(found)
                         : "r"(&word));
    }
}

/* A jump uses the register that the instruction before it has written. */
void known_jumps(uint32_t rounds) {
    uintptr_t next;
    for (uint32_t i = 0; i < rounds; i++) {
        __asm__ volatile("la %0, 1f\n"
                         "jr %0\n"
                         "1:\n"
                         : "=&r"(next));
    }
}
