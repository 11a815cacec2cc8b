/* SPDX-License-Identifier: Apache-2.0 */
/* Functions with probes, for tests through cffi. */

#ifndef TEST_PROBES_H
#define TEST_PROBES_H

#include <stdbool.h>

#include "boardprof/bp_trace.h"

void test_mark(void);
void test_value(int32_t value);
void test_begin(void);
void test_end(void);
void test_shared(void);
void test_shared_too(void); /* in library.c: the same name in another file */
void test_alloc(uint32_t block, uint32_t bytes);
void test_task(uint64_t task);
void test_number(uint32_t value);
void test_names(void);
void test_wide_mark(void);
void test_wide_value(uint32_t value);
void test_wide_range(void);
void test_events(uint32_t first, uint32_t count);
void test_core_events(uint32_t core, uint32_t first, uint32_t count, uint64_t *times);
void test_interrupts(bool on); /* an event as soon as a lock ends, from now on */
uint8_t *test_ring(uint32_t core);
size_t test_ring_bytes(void);

#endif
