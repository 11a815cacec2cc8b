/* SPDX-License-Identifier: Apache-2.0 */
/* Work for `boardprof doctor`. Both caches have 4 KiB in lines of 32 bytes, and each line of memory
 * has one place there (rtl/core.sv). So what is 4 KiB apart evicts each other. */

#include <stdint.h>

enum { CACHE = 4096 };

void known_data_refills(uint32_t rounds);
void known_fetch_refills(uint32_t rounds);
void known_hazards(uint32_t rounds);
void known_mispredictions(uint32_t rounds);
void known_redirects(uint32_t rounds);

static volatile uint32_t known_words[2 * CACHE / 4];

/* Two words that evict each other. */
void known_data_refills(uint32_t rounds) {
    for (uint32_t i = 0; i < rounds; i++) {
        (void)known_words[0];
        (void)known_words[CACHE / 4];
    }
}

/* Two lines of code that evict each other. */
void known_fetch_refills(uint32_t rounds) {
    if (rounds == 0) {
        return;
    }
    __asm__ volatile(".balign 32\n"
                     "1: addi %0, %0, -1\n"
                     "   j    2f\n"
                     "3: bnez %0, 1b\n"
                     "   j    4f\n"
                     "   .balign 32\n"
                     "   .skip 4096 - 32\n"
                     "2: j    3b\n"
                     "4:\n"
                     : "+r"(rounds));
}

/* What a load has read is there in the last stage, and an instruction needs it in the second one.
 */
void known_hazards(uint32_t rounds) {
    uint32_t found;
    for (uint32_t i = 0; i < rounds; i++) {
        __asm__ volatile("lw   %0, 0(%1)\n"
                         "addi %0, %0, 1\n"
                         : "=&r"(found)
                         : "r"(known_words));
    }
}

/* A branch forwards is predicted as not taken, one backwards as taken. */
void known_mispredictions(uint32_t rounds) {
    for (uint32_t i = 0; i < rounds; i++) {
        __asm__ volatile("beqz zero, 1f\n"
                         "1:\n");
    }
}

/* A jump to an address in a register is not predicted. */
void known_redirects(uint32_t rounds) {
    uintptr_t next;
    for (uint32_t i = 0; i < rounds; i++) {
        __asm__ volatile("la %0, 1f\n"
                         "jr %0\n"
                         "1:\n"
                         : "=&r"(next));
    }
}
