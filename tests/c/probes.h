/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of probes call. */

#ifndef TEST_PROBES_H
#define TEST_PROBES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void test_mark(void);
void test_shared(void);
void test_u32(uint32_t value);
void test_i32(int32_t value);
void test_f32(float value);
void test_i8(int8_t value);
void test_begin(void);
void test_end(void);
void test_scope(bool early);
void test_isr_enter(void);
void test_isr_exit(void);
void test_isr_number(uint32_t number);
void test_task(uint32_t task);
void test_alloc(uint32_t block, uint32_t bytes);
void test_free(uint32_t block);

/* Values that count from `first`, at random times, of which up to 2^28 cycles pass between two.
 * `times` gets each event's. */
void test_flood(uint32_t first, uint32_t count, uint32_t seed, uint64_t *times);

/* The same by a thread that is this core. */
void test_core_flood(uint32_t core, uint32_t first, uint32_t count, uint64_t *times);

/* The mark `shared`, which probes.c has too. */
void test_shared_elsewhere(void);
/* One of the marks m000 to m299, and one of the values v000 to v299. */
void test_many_mark(uint32_t index);
void test_many_value(uint32_t index, uint32_t value);

/* How deep locks nest now. */
uintptr_t test_lock_depth(void);
/* Empty all rings. */
void test_forget(void);
/* The state of the ring, and its words. */
uint8_t *test_ring(void);
size_t test_ring_size(void);
uint8_t *test_words(void);

#endif
