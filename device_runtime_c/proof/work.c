/* SPDX-License-Identifier: Apache-2.0 */
/* Functions with a known number of events: loops with one event of a kind in each round. The loop
 * itself is a taken branch, and has no loads or stores. Whatever a compiler could remove, merge or
 * duplicate is volatile, or goes through PROOF_OPAQUE. */

#include <stdint.h>

#include "boardprof/bp_function.h"

void proof_loads(uint32_t rounds);
void proof_stores(uint32_t rounds);
void proof_branches(uint32_t rounds);
void proof_jumps(uint32_t rounds);
void proof_multiplications(uint32_t rounds);
void proof_divisions(uint32_t rounds);
#if defined(__riscv_compressed)
void proof_compressed(uint32_t rounds);
#endif

/* The compiler knows nothing of this value. */
#define PROOF_OPAQUE(value) __asm__ volatile("" : "+r"(value))

/* One byte: some cores need several accesses for more. */
static volatile uint8_t proof_byte;

void proof_loads(uint32_t rounds) {
    for (uint32_t i = 0; i < rounds; i++) {
        PROOF_OPAQUE(i);
        (void)proof_byte;
    }
}

void proof_stores(uint32_t rounds) {
    for (uint32_t i = 0; i < rounds; i++) {
        PROOF_OPAQUE(i);
        proof_byte = 0;
    }
}

/* The loop's branch, and one that is never taken. */
void proof_branches(uint32_t rounds) {
    uint32_t never = 0;
    for (uint32_t i = 0; i < rounds; i++) {
        PROOF_OPAQUE(never);
        if (__builtin_expect(never != 0, 0)) {
            return;
        }
        PROOF_OPAQUE(i);
    }
}

__attribute__((noinline)) static void proof_leaf(void) {
    __asm__ volatile("");
}

/* A call and its return. */
void proof_jumps(uint32_t rounds) {
    void (*leaf)(void) = proof_leaf;
    for (uint32_t i = 0; i < rounds; i++) {
        PROOF_OPAQUE(leaf);
        leaf();
    }
}

void proof_multiplications(uint32_t rounds) {
    uint32_t product = 1;
    uint32_t factor = 3;
    for (uint32_t i = 0; i < rounds; i++) {
        PROOF_OPAQUE(factor);
        product *= factor;
        PROOF_OPAQUE(product);
    }
}

void proof_divisions(uint32_t rounds) {
    uint32_t divisor = 3;
    for (uint32_t i = 0; i < rounds; i++) {
        uint32_t number = 1000000;
        PROOF_OPAQUE(divisor);
        PROOF_OPAQUE(number);
        number /= divisor;
        PROOF_OPAQUE(number);
    }
}

#if defined(__riscv_compressed)
/* Two compressed instructions. The loop's own two are not compressed. */
void proof_compressed(uint32_t rounds) {
    if (rounds == 0) {
        return;
    }
    __asm__ volatile(".option push\n"
                     ".option rvc\n"
                     "1: c.nop\n"
                     "c.nop\n"
                     ".option norvc\n"
                     "addi %0, %0, -1\n"
                     "bnez %0, 1b\n"
                     ".option pop\n"
                     : "+r"(rounds));
}
#endif

BP_FUNCTION(proof_loads);
BP_FUNCTION(proof_stores);
BP_FUNCTION(proof_branches);
BP_FUNCTION(proof_jumps);
BP_FUNCTION(proof_multiplications);
BP_FUNCTION(proof_divisions);
#if defined(__riscv_compressed)
BP_FUNCTION(proof_compressed);
#endif
