/* SPDX-License-Identifier: Apache-2.0 */
/* A board that is nothing but memory: bytes are put in and taken out, clocks stand where a test
 * sets them. No threads. */

#ifndef TEST_PORT_MEMORY_H
#define TEST_PORT_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Append bytes to what the host has sent; the agent sees them at its next poll. */
void test_feed(const uint8_t *bytes, size_t length);

/* What the agent has sent, in order, at most `capacity` bytes; they are forgotten then. */
size_t test_take(uint8_t *out, size_t capacity);

/* Forget all bytes in both directions and the log, and set the clocks back. */
void test_port_reset(void);

extern uint64_t test_ticks;
extern uint64_t test_ticks_step; /* each read advances by it, after the read */
extern uint32_t test_coarse;
extern uint32_t test_boots; /* what bp_port_boot_id returns */

/* What happened, in order, a letter each. Ends with a 0; what does not fit is left out. */
extern char test_log[1024];
extern size_t test_logged;
extern bool test_log_writes; /* `w` for each frame that the agent sends */

void test_note(char what);

#endif
