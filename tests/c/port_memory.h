/* SPDX-License-Identifier: Apache-2.0 */
/* A board that is nothing but memory: bytes are put in and taken out, clocks stand where a test
 * sets them. No threads. */

#ifndef TEST_PORT_MEMORY_H
#define TEST_PORT_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "boardprof/bp_config.h"

/* Append bytes to what the host has sent; the agent sees them at its next poll. */
void test_feed(const uint8_t *bytes, size_t length);

/* The same, but only when the letter `at` has been noted for the `after`th time, counted from now.
 * One such at a time, of up to 256 bytes. */
void test_feed_at(const uint8_t *bytes, size_t length, char at, uint32_t after);

/* Bytes that the agent has not taken yet. */
size_t test_waiting(void);

/* What the agent has sent, in order, at most `capacity` bytes; they are forgotten then. */
size_t test_take(uint8_t *out, size_t capacity);

/* Forget all bytes in both directions and the log, and set the clocks back. */
void test_port_reset(void);

extern size_t test_read_most; /* bytes that one bp_port_read gives at most */

extern uint64_t test_ticks;
extern uint64_t test_ticks_step; /* each read advances by it, after the read */
extern uint32_t test_coarse;
extern uint32_t test_boots; /* what bp_port_boot_id returns */

/* What happened, in order, a letter each. Ends with a 0; what does not fit is left out. */
extern char test_log[1024];
extern size_t test_logged;
extern bool test_log_writes; /* `w` for each frame that the agent sends */

void test_note(char what);

/* `<` and `>` in the log: interrupts are masked, and not any more; `x`: one within another. */

#if BP_CFG_SAMPLING
/* How long the functions that note `f` run, in ticks of the timer that samples. A sample's pc is
 * the number of ticks since the call, its sp 0. `T` and `t` in the log: the timer is started,
 * stopped. */
extern uint32_t test_call_ticks;
extern uint32_t test_timer; /* ticks until the next sample; 0: the timer is off */
#endif

#if BP_CFG_STACK
extern uint8_t *test_stack_limit; /* what bp_port_stack_limit returns */
#endif

#if BP_CFG_GUARD
/* A guarded call stands in the log in brackets: `(` and `)`. When the letter `test_trap_at` has
 * been noted in one for the `test_trap_after`th time, it ends there, by the fault that stands in
 * `test_trap_cause`, `test_trap_pc` and `test_trap_address`. */
extern char test_trap_at; /* 0: never */
extern uint32_t test_trap_after;
extern uint8_t test_trap_cause;
extern uint64_t test_trap_pc;
extern uint64_t test_trap_address;
extern uint32_t test_guard_ms; /* the limit of the last guarded call */
#endif

#endif
