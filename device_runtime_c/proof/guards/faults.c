/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that do not return. `boardprof doctor --report` checks with them that each is ended by
 * the board's guard, with the right cause, and that the board goes on. Not part of the agent. */

#include <stdint.h>

#include "boardprof/bp_function.h"

static volatile int proof_zero;
static volatile int proof_sink;

void proof_bad_address(uint32_t address);
void proof_misaligned(void);
void proof_illegal_instruction(void);
void proof_divide(void);
void proof_stack_overflow(void);
void proof_breakpoint(void);
void proof_time_out(void);

/* An address where nothing answers: 0, unless board.toml names another one. */
void proof_bad_address(uint32_t address) {
    *(volatile int *)(uintptr_t)address = 1;
}

void proof_misaligned(void) {
    static long long two[2];
    volatile int *between = (volatile int *)(void *)((char *)two + 1);
    __asm__ volatile("" : "+r"(between)); /* or a compiler that knows it writes single bytes */
    *between = 1;
}

void proof_illegal_instruction(void) {
#if defined(__x86_64__) || defined(__i386__)
    __asm__ volatile("ud2");
#elif defined(__riscv)
    __asm__ volatile("unimp");
#elif defined(__arm__) || defined(__aarch64__)
    __asm__ volatile("udf #0");
#elif defined(__AVR__)
    __asm__ volatile(".word 0xffff");
#else
    __builtin_trap();
#endif
}

void proof_divide(void) {
    proof_sink = 10 / proof_zero;
}

/* Not a tail call, so that no compiler makes a loop of it. */
__attribute__((noinline)) static int proof_deeper(int n) {
    volatile int here[16];
    here[n & 15] = n;
    int below = proof_sink != -1 ? proof_deeper(n + 1) : 0;
    return below + here[0];
}

void proof_stack_overflow(void) {
    proof_sink = proof_deeper(0);
}

void proof_breakpoint(void) {
#if defined(__x86_64__) || defined(__i386__)
    __asm__ volatile("int3");
#elif defined(__riscv)
    __asm__ volatile("ebreak");
#elif defined(__arm__)
    __asm__ volatile("bkpt #0");
#elif defined(__aarch64__)
    __asm__ volatile("brk #0");
#endif
    proof_sink = 1;
}

void proof_time_out(void) {
    for (;;) {
        proof_sink++;
    }
}

BP_FUNCTION(proof_bad_address);
BP_FUNCTION(proof_misaligned);
BP_FUNCTION(proof_illegal_instruction);
BP_FUNCTION(proof_divide);
BP_FUNCTION(proof_stack_overflow);
BP_FUNCTION(proof_breakpoint);
BP_FUNCTION(proof_time_out);
