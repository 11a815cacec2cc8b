/* SPDX-License-Identifier: Apache-2.0 */
/* bp_port.h over two buffers. */

#include "port_memory.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"
#include "bp_arch.h"

#ifndef TEST_TICKS_HZ
#define TEST_TICKS_HZ 8000u
#endif
#ifndef TEST_TICKS_BITS
#define TEST_TICKS_BITS 64
#endif

typedef struct {
    size_t begin;
    size_t end;
    uint8_t bytes[1u << 20];
} test_line_t;

static test_line_t test_to_board;
static test_line_t test_to_host;

static struct {
    uint8_t bytes[256];
    size_t length; /* 0: none */
    uint32_t after;
    char at;
} test_later;

size_t test_read_most;
uint64_t test_ticks;
uint64_t test_ticks_step;
uint64_t test_cycles_per_tick; /* 0: test_ticks counts */
uint32_t test_coarse;
uint32_t test_boots;
uint64_t test_cycles;
uint64_t test_cycles_step;
uint64_t test_instructions;
uint64_t test_instructions_step;
char test_log[1024];
size_t test_logged;
bool test_log_writes;

#if BP_CFG_STACK
uint8_t *test_stack_limit;
#endif

#if BP_CFG_GUARD
char test_trap_at;
uint32_t test_trap_after;
uint8_t test_trap_cause;
uint64_t test_trap_pc;
uint64_t test_trap_address;
uint32_t test_guard_ms;
static bool test_guarded;
static jmp_buf test_way_back;
#endif

#if BP_CFG_INTERRUPTS > 1
bool test_schedules;
bool test_strays;
bool test_switches_within;
#endif

#if BP_CFG_SAMPLING
uint32_t test_call_ticks;
uint32_t test_timer;

static void test_pass_time(void) {
    uint32_t now = 0;
    while (test_timer != 0 && test_timer <= test_call_ticks - now) {
        now += test_timer;
        test_timer = bp_sample_take(now, 0);
    }
}
#endif

void test_note(char what) {
    if (test_logged < sizeof test_log - 1) {
        test_log[test_logged++] = what;
    }
#if BP_CFG_SAMPLING
    if (what == 'f') {
        test_pass_time();
    }
#endif
    if (test_later.length != 0 && what == test_later.at && --test_later.after == 0) {
        test_feed(test_later.bytes, test_later.length);
        test_later.length = 0;
    }
#if BP_CFG_GUARD
    if (test_guarded && what == test_trap_at && --test_trap_after == 0) {
        longjmp(test_way_back, 1);
    }
#endif
}

static void test_put(test_line_t *line, const uint8_t *bytes, size_t length) {
    if (line->begin == line->end) {
        line->begin = line->end = 0;
    }
    if (length > sizeof line->bytes - line->end) {
        fprintf(stderr, "port_memory: the line's buffer is full: take what was sent\n");
        abort();
    }
    memcpy(line->bytes + line->end, bytes, length);
    line->end += length;
}

static size_t test_get(test_line_t *line, uint8_t *out, size_t capacity) {
    size_t length = line->end - line->begin;
    length = length < capacity ? length : capacity;
    memcpy(out, line->bytes + line->begin, length);
    line->begin += length;
    return length;
}

void test_feed(const uint8_t *bytes, size_t length) {
    test_put(&test_to_board, bytes, length);
}

void test_feed_at(const uint8_t *bytes, size_t length, char at, uint32_t after) {
    memcpy(test_later.bytes, bytes, length);
    test_later.length = length;
    test_later.at = at;
    test_later.after = after;
}

size_t test_waiting(void) {
    return test_to_board.end - test_to_board.begin;
}

size_t test_take(uint8_t *out, size_t capacity) {
    return test_get(&test_to_host, out, capacity);
}

void test_port_reset(void) {
    test_to_board.begin = test_to_board.end = 0;
    test_to_host.begin = test_to_host.end = 0;
    test_later.length = 0;
    test_read_most = SIZE_MAX;
    test_ticks = test_cycles = test_instructions = 0;
    test_ticks_step = test_cycles_step = test_instructions_step = 1;
    test_cycles_per_tick = 0;
    test_coarse = 0;
    test_boots = 0x0b0075;
    memset(test_log, 0, sizeof test_log);
    test_logged = 0;
    test_log_writes = false;
#if BP_CFG_STACK
    /* A thread has megabytes; 128 KiB are painted at most. */
    test_stack_limit = (uint8_t *)__builtin_frame_address(0) - (128 << 10);
#endif
#if BP_CFG_GUARD
    test_trap_at = 0;
    test_guard_ms = 0;
#endif
#if BP_CFG_INTERRUPTS > 1
    test_schedules = test_strays = test_switches_within = false;
#endif
#if BP_CFG_SAMPLING
    test_call_ticks = test_timer = 0;
#endif
}

/// bp_port.h ///

void bp_port_init(void) {
}

size_t bp_port_read(uint8_t *buffer, size_t capacity) {
    return test_get(&test_to_board, buffer, capacity < test_read_most ? capacity : test_read_most);
}

void bp_port_write(const uint8_t *buffer, size_t length) {
    test_put(&test_to_host, buffer, length);
    if (test_log_writes) {
        test_note('w');
    }
}

void bp_port_idle(void) {
}

static const char test_ticks_source[] BP_ROM = "test_ticks";

const bp_port_clock_t bp_port_clock BP_ROM = {.source = test_ticks_source,
                                              .ticks_hz = TEST_TICKS_HZ,
                                              .coarse_hz = 100,
                                              .ticks_bits = TEST_TICKS_BITS};

uint64_t bp_port_ticks(void) {
    if (test_cycles_per_tick != 0) {
        return test_cycles / test_cycles_per_tick;
    }
    uint64_t now = test_ticks;
    test_ticks += test_ticks_step;
    return TEST_TICKS_BITS < 64 ? now & (((uint64_t)1 << TEST_TICKS_BITS % 64) - 1) : now;
}

uint32_t bp_port_coarse(void) {
    return test_coarse;
}

uint8_t bp_port_reset_cause(void) {
    return BP_RESET_PIN;
}

uint32_t bp_port_boot_id(void) {
    return test_boots;
}

#if BP_CFG_STACK
uint8_t *bp_port_stack_limit(void) {
    return test_stack_limit;
}
#endif

#if BP_CFG_GUARD
void bp_port_guard(void (*body)(void *context), void *context, uint32_t timeout_ms,
                   bp_fault_t *fault) {
    test_guard_ms = timeout_ms;
    test_note('(');
    test_guarded = true;
    if (setjmp(test_way_back) == 0) {
        body(context);
        *fault = (bp_fault_t){.cause = BP_FAULT_NONE};
    } else {
        *fault = (bp_fault_t){
            .cause = test_trap_cause, .pc = test_trap_pc, .address = test_trap_address};
    }
    test_guarded = false;
    test_note(')');
}
#endif

#if BP_CFG_SAMPLING

enum { TEST_LEAST = 10 };

static const char test_timer_source[] BP_ROM = "test_timer";

const bp_port_sampling_t bp_port_sampling BP_ROM = {
    .source = test_timer_source, .least = TEST_LEAST, .most = 1000000, .usual = 100};

/* The agent begins the call when the shortest delay is over. */
void bp_port_sample_start(uint32_t ticks) {
    test_timer = ticks - TEST_LEAST + 1;
    test_note('T');
}

void bp_port_sample_stop(void) {
    test_timer = 0;
    test_note('t');
}

#endif

#if BP_CFG_INTERRUPTS

uintptr_t bp_port_mask(void) {
    test_note('<');
    return 0x51;
}

void bp_port_unmask(uintptr_t before) {
    test_note(before == 0x51 ? '>' : '!');
}

const bp_port_interrupts_t bp_port_interrupts BP_ROM = {
    .timer_us = 1000, .longest_us = 2048, .bound_ns = 300, .masks_guard = true, .triggers = true};

#if BP_CFG_INTERRUPTS > 1

/* As of handlers whose entry calls no hook. */
static void test_stray_exits(void) {
    if (test_strays) {
        bp_isr_exit();
    }
}

/* A scheduler that says when it begins to choose a task: the other one, and this one again. */
static void test_schedule(void) {
    bp_task_switched(NULL);
    test_ticks += 5;
    bp_task_switched(&test_logged);
    test_ticks += 10;
    bp_task_switched(NULL);
    test_ticks += 5;
    bp_task_switched(&test_ticks);
}

/* The other task is switched to, and from, by interrupts between their hooks. */
static void test_switching_interrupts(void) {
    bp_isr_enter();
    test_ticks += 1000;
    bp_task_switched(&test_ticks);
    bp_isr_exit();
    test_ticks += 10;
    bp_isr_enter();
    test_ticks += 100;
    bp_task_switched(NULL);
    bp_isr_exit();
}

/* One of 1000 ticks, in which another one of 100 comes; a task that is not the window's has 10. */
void bp_port_interrupt(void) {
    if (test_schedules) {
        test_schedule();
        return;
    }
    if (test_switches_within) {
        test_switching_interrupts();
        return;
    }
    bp_isr_enter();
    test_ticks += 1000;
    bp_isr_enter();
    test_note('x');
    test_ticks += 100;
    bp_isr_exit();
    bp_isr_exit();
    bp_task_switched(&test_ticks);
    test_stray_exits();
    test_ticks += 10;
    bp_isr_enter();
    bp_isr_exit();
    bp_task_switched(NULL);
    test_stray_exits();
}

#endif

#endif
