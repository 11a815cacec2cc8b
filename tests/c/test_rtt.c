/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's RTT rings under the compiler's sanitizers, against a probe of our own that knows
 * SEGGER's layout only. Usage: test_rtt [SEED] */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bp_internal.h"
#include "port_memory.h"

#define TEST_CHECK(condition)                                               \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

enum { TEST_SECOND = 1000000, TEST_LONGEST = 600, TEST_ROUNDS = 50000 };

/* The layout with pointers of 64 bits. */
typedef struct {
    const char *name;
    uint8_t *buffer;
    uint32_t size, write, read, flags;
} test_ring_t;

extern volatile struct test_block {
    char id[16];
    int32_t ups, downs;
    test_ring_t up, down;
} test_block __asm__("_SEGGER_RTT");

static uint64_t test_random_state;

/* A xorshift generator (Marsaglia 2003): the same numbers on every machine. */
static uint32_t test_below(uint32_t limit) {
    test_random_state ^= test_random_state << 13;
    test_random_state ^= test_random_state >> 7;
    test_random_state ^= test_random_state << 17;
    return (uint32_t)(test_random_state >> 16) % limit;
}

/// The probe ///

/* Take up to `most` bytes; returns how many. */
static size_t test_probe_read(uint8_t *out, size_t most) {
    size_t length = 0;
    while (length < most && test_block.up.read != test_block.up.write) {
        out[length++] = test_block.up.buffer[test_block.up.read];
        test_block.up.read = (test_block.up.read + 1) % test_block.up.size;
    }
    return length;
}

/* Put as many of the bytes as there is room for; returns how many. */
static size_t test_probe_write(const uint8_t *bytes, size_t length) {
    size_t written = 0;
    while (written < length &&
           (test_block.down.write + 1) % test_block.down.size != test_block.down.read) {
        test_block.down.buffer[test_block.down.write] = bytes[written++];
        test_block.down.write = (test_block.down.write + 1) % test_block.down.size;
    }
    return written;
}

static void test_is_described(void) {
    TEST_CHECK(memcmp((const char *)test_block.id, "SEGGER RTT\0\0\0\0\0", 16) == 0);
    TEST_CHECK(test_block.ups == 1 && test_block.downs == 1);
    TEST_CHECK(strcmp(test_block.up.name, "boardprof") == 0);
    TEST_CHECK(strcmp(test_block.down.name, "boardprof") == 0);
    TEST_CHECK(test_block.up.size == 256 && test_block.down.size == 257);
    TEST_CHECK(test_block.up.write < 256 && test_block.up.read < 256);
    TEST_CHECK(test_block.down.write < 257 && test_block.down.read < 257);
    TEST_CHECK(test_block.up.flags == 0 && test_block.down.flags == 0);
}

/// The agent's side: blocks of just their size, so that the sanitizer sees each byte beyond ///

static size_t test_agent_read(uint8_t *out, size_t capacity) {
    uint8_t *exact = malloc(capacity);
    size_t length = bp_rtt_read(exact, capacity);
    TEST_CHECK(length <= capacity);
    memcpy(out, exact, length);
    free(exact);
    return length;
}

static void test_agent_write(const uint8_t *bytes, size_t length) {
    uint8_t *exact = malloc(length);
    memcpy(exact, bytes, length);
    bp_rtt_write(exact, length);
    free(exact);
}

static void test_empty(void) {
    uint8_t out[TEST_LONGEST];
    while (test_agent_read(out, sizeof out) != 0 || test_probe_read(out, sizeof out) != 0) {
    }
}

/// Tests ///

static void test_all_bytes_arrive_in_order(void) {
    uint8_t bytes[TEST_LONGEST];
    uint8_t sent_up = 0, seen_up = 0, sent_down = 0, seen_down = 0;
    for (uint32_t i = 0; i < TEST_ROUNDS; i++) {
        size_t length = test_below(255); /* with an empty ring it never waits */
        for (size_t j = 0; j < length; j++) {
            bytes[j] = sent_up++;
        }
        test_agent_write(bytes, length);
        for (size_t got; (got = test_probe_read(bytes, 1 + test_below(300))) != 0;) {
            for (size_t j = 0; j < got; j++) {
                TEST_CHECK(bytes[j] == seen_up++);
            }
        }
        TEST_CHECK(seen_up == sent_up);
        for (size_t j = 0; j < sizeof bytes; j++) {
            bytes[j] = (uint8_t)(sent_down + j);
        }
        sent_down = (uint8_t)(sent_down + test_probe_write(bytes, test_below(sizeof bytes)));
        length = test_agent_read(bytes, test_below(sizeof bytes));
        for (size_t j = 0; j < length; j++) {
            TEST_CHECK(bytes[j] == seen_down++);
        }
    }
    test_empty();
}

static void test_a_write_that_nobody_reads_ends_after_a_second_and_the_next_at_once(void) {
    uint8_t bytes[TEST_LONGEST] = {0};
    test_ticks_step = 100;
    uint64_t before = test_ticks;
    test_agent_write(bytes, sizeof bytes);
    TEST_CHECK(test_ticks - before > TEST_SECOND && test_ticks - before < TEST_SECOND + 1000);
    before = test_ticks;
    test_agent_write(bytes, sizeof bytes);
    TEST_CHECK(test_ticks - before < 1000);
    test_empty(); /* a host has come */
    before = test_ticks;
    test_agent_write(bytes, sizeof bytes);
    TEST_CHECK(test_ticks - before > TEST_SECOND);
    test_empty();
    test_ticks_step = 0; /* a function has stopped the clock */
    test_agent_write(bytes, sizeof bytes);
    test_empty();
    test_ticks_step = 1;
}

static void test_a_block_that_is_overwritten_is_repaired(void) {
    uint8_t bytes[TEST_LONGEST] = {0};
    test_ticks_step = TEST_SECOND / 4;
    for (uint32_t i = 0; i < TEST_ROUNDS; i++) {
        uint32_t words = sizeof test_block / 4;
        for (uint32_t n = 1 + test_below(4); n > 0; n--) {
            uint32_t value = test_below(2) ? test_below(600) : test_below(UINT32_MAX);
            ((volatile uint32_t *)&test_block)[test_below(words)] = value;
        }
        test_agent_write(bytes, test_below(sizeof bytes));
        test_agent_read(bytes, test_below(sizeof bytes));
        test_agent_write(bytes, test_below(sizeof bytes));
        while (test_agent_read(bytes, sizeof bytes) != 0) {
        }
        test_is_described();
    }
    test_empty();
}

int main(int argc, char **argv) {
    uint8_t bytes[1];
    test_random_state = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    test_port_reset();
    TEST_CHECK(test_block.id[0] == '\0');
    TEST_CHECK(bp_rtt_read(bytes, sizeof bytes) == 0);
    test_is_described();
    test_all_bytes_arrive_in_order();
    test_a_write_that_nobody_reads_ends_after_a_second_and_the_next_at_once();
    test_a_block_that_is_overwritten_is_repaired();
    test_all_bytes_arrive_in_order();
    printf("%d rounds\n", TEST_ROUNDS);
}
