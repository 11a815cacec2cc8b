/* SPDX-License-Identifier: Apache-2.0 */
/* Work for `boardprof doctor`. What the engine's counters count of it follows from
 * rtl/accelerator.sv and simulator/rtl/arbiter.sv. What the wait counters count follows from the
 * Ibex reference guide. */

#include "engine.h"

enum {
    WORDS = 16,
    FIRST_DELAY = 25, /* cycles; the engine writes at about the middle of the sweep */
    DELAYS = 8,
};

void known_fetches(uint32_t rounds);
void known_jobs(uint32_t rounds);
void known_read_stalls(uint32_t rounds);
void known_write_stalls(uint32_t rounds);

static uint32_t known_words[WORDS], known_sums[4];

static void known_prepare(uint32_t words, uint32_t rows) {
    ENGINE_VECTOR = (uint32_t)known_words;
    ENGINE_MATRIX = (uint32_t)known_words;
    ENGINE_OUT = (uint32_t)known_sums;
    ENGINE_LENGTH = 4 * words;
    ENGINE_ROWS = rows;
    ENGINE_STRIDE = 0;
}

/* Polls the engine, not the RAM that it shares with the core. */
static void known_wait(void) {
    while ((ENGINE_STATUS & ENGINE_STATUS_BUSY) != 0) {
    }
}

/* A taken branch waits for one fetch if its target is one word. */
void known_fetches(uint32_t rounds) {
    if (rounds == 0) {
        return;
    }
    __asm__ volatile(".balign 4\n"
                     ".option push\n"
                     ".option norvc\n"
                     "1: addi %0, %0, -1\n"
                     "bnez %0, 1b\n"
                     ".option pop\n"
                     : "+r"(rounds));
}

/* Four rows of 16 bytes while the core does not use the RAM: 64 products. The vector takes a cycle
 * for each word and one more. A row takes the same and one more for its result: 4 + 1 + 4 * (4 + 1
 * + 1). */
void known_jobs(uint32_t rounds) {
    known_prepare(4, 4);
    for (uint32_t i = 0; i < rounds; i++) {
        ENGINE_CONTROL = 1;
        known_wait();
    }
}

/* One load while the engine reads its vector. Whenever it comes, the arbiter grants it between two
 * bursts, and the engine waits one cycle. */
void known_read_stalls(uint32_t rounds) {
    known_prepare(WORDS, 1);
    for (uint32_t i = 0; i < rounds; i++) {
        ENGINE_CONTROL = 1;
        (void)*(volatile uint32_t *)known_words;
        known_wait();
    }
}

/* Start a job, and load `delay` cycles later. */
static void known_late_load(uint32_t delay) {
    uint32_t entry;
    __asm__ volatile(".balign 4\n"
                     ".option push\n"
                     ".option norvc\n"
                     "la %0, 1f\n"
                     "slli %1, %1, 2\n"
                     "sub %0, %0, %1\n"
                     "sw %2, 0(%3)\n"
                     "jr %0\n"
                     ".rept %c5\n"
                     "nop\n"
                     ".endr\n"
                     "1: lw %0, 0(%4)\n"
                     ".option pop\n"
                     : "=&r"(entry), "+&r"(delay)
                     : "r"(1), "r"(&ENGINE_CONTROL), "r"(known_words), "i"(FIRST_DELAY + DELAYS)
                     : "memory");
}

/* The same job again and again, with one load that comes a cycle later each time. One of the loads
 * meets the engine's only write. It goes first, since the engine had the RAM last. */
void known_write_stalls(uint32_t rounds) {
    known_prepare(WORDS, 1);
    for (uint32_t i = 0; i < rounds; i++) {
        for (uint32_t delay = FIRST_DELAY; delay < FIRST_DELAY + DELAYS; delay++) {
            known_late_load(delay);
            known_wait();
        }
    }
}
