/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that count how often they run, and collectors that count these. */

#include "firmware.h"

#include <string.h>

#include "boardprof/bp_le.h"
#include "bp_internal.h"
#include "port_memory.h"

/* A longer body than the eight bytes in use, to fit blobs to a reply's last byte. */
#ifndef TEST_PROBE_BODY
#define TEST_PROBE_BODY 8
#endif

uint32_t test_counted;
uint32_t test_worked;
uint32_t test_recorded;
int test_check_after;

void test_firmware_reset(void) {
    test_counted = test_worked = test_recorded = 0;
    test_check_after = 0;
}

/// Packed functions ///

/* () -> how often it has run */
static int test_count(bp_call_t *call) {
    if (bp_arg_end(call) == 0) {
        bp_ret_uint(call, ++test_counted);
    }
    return call->err;
}

/* bytes -> the same bytes */
static int test_echo(bp_call_t *call) {
    size_t length;
    const uint8_t *bytes = bp_arg_bytes(call, &length);
    if (bp_arg_end(call) == 0) {
        bp_ret_bytes(call, bytes, length);
    }
    return call->err;
}

/* n -> n bytes of 0x55 */
static int test_fill(bp_call_t *call) {
    size_t length = (size_t)bp_arg_uint(call, UINT16_MAX);
    uint8_t *bytes = bp_arg_end(call) == 0 ? bp_ret_bin(call, length) : NULL;
    if (bytes != NULL) {
        memset(bytes, 0x55, length);
    }
    return call->err;
}

/* code -> that error, without a detail */
static int test_refuse(bp_call_t *call) {
    int code = (int)bp_arg_int(call, 1, 127);
    return bp_arg_end(call) != 0 ? call->err : -code;
}

/* x -> half of it */
static int test_half(bp_call_t *call) {
    double half = bp_arg_f64(call) / 2;
    if (bp_arg_end(call) == 0) {
        bp_ret_f64(call, half);
    }
    return call->err;
}

#if BP_CFG_GUARD
/* Traps, once half of its reply is written and an error of its own noted. */
static int test_trap(bp_call_t *call) {
    bp_ret_array(call, 2);
    bp_fail(call, BP_ERR_ARG_TYPE, 3);
    test_note('p');
    return 0;
}
#endif

#if BP_CFG_STREAM
/* bytes -> how many of them the stream has kept */
static int test_record(bp_call_t *call) {
    size_t length;
    const uint8_t *bytes = bp_arg_bytes(call, &length);
    if (bp_arg_end(call) == 0) {
        bp_ret_uint(call, (uint32_t)bp_stream_write(bytes, length));
    }
    return call->err;
}
#endif

/// Measured functions ///

static void test_work(void) {
    test_worked++;
    test_note('f');
}

static void test_work_setup(void) {
    test_note('u');
#if BP_CFG_STREAM
    uint8_t record[64];
    memset(record, (int)(test_worked & 255), sizeof record);
    bp_stream_write(record, test_recorded);
#endif
}

static int test_work_check(void) {
    test_note('c');
    return test_check_after != 0 && test_worked >= (uint32_t)test_check_after ? 42 : 0;
}

static const bp_target_t test_work_target BP_ROM = {
    .fn = test_work, .setup = test_work_setup, .check = test_work_check};

typedef struct {
    int32_t a;
    int32_t b;
    int32_t result;
} test_add_slots_t;

static int32_t test_add(int32_t a, int32_t b) {
    test_note('f');
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

static void test_add_thunk(bp_fn_t *fn, void *slots) {
    test_add_slots_t *s = slots;
    s->result = ((int32_t (*)(int32_t, int32_t))fn)(s->a, s->b);
}

static int test_add_unpack(bp_call_t *call, void *slots) {
    test_add_slots_t *s = slots;
    s->a = (int32_t)bp_arg_int(call, INT32_MIN, INT32_MAX);
    s->b = (int32_t)bp_arg_int(call, INT32_MIN, INT32_MAX);
    return call->err;
}

static void test_add_pack(bp_call_t *call, const void *slots) {
    bp_ret_i64(call, ((const test_add_slots_t *)slots)->result);
}

static const bp_target_t test_add_target BP_ROM = {.fn = (bp_fn_t *)test_add,
                                                   .thunk = test_add_thunk,
                                                   .unpack = test_add_unpack,
                                                   .pack = test_add_pack};

#ifdef TEST_POINTERS

typedef struct {
    int32_t *y;
    uint32_t n;
} test_scale_slots_t;

/* y[0..n) doubled */
static void test_scale(int32_t *y, uint32_t n) {
    test_note('f');
    for (uint32_t i = 0; i < n; i++) {
        y[i] = (int32_t)((uint32_t)y[i] * 2u);
    }
}

static void test_scale_thunk(bp_fn_t *fn, void *slots) {
    test_scale_slots_t *s = slots;
    ((void (*)(int32_t *, uint32_t))fn)(s->y, s->n);
}

static int test_scale_unpack(bp_call_t *call, void *slots) {
    test_scale_slots_t *s = slots;
    s->y = bp_arg_span(call, sizeof *s->y);
    s->n = bp_arg_u32(call);
    return call->err;
}

static const bp_target_t test_scale_target BP_ROM = {
    .fn = (bp_fn_t *)test_scale, .thunk = test_scale_thunk, .unpack = test_scale_unpack};

#if BP_CFG_ARENA

/* Returns `p` moved by `n` bytes, or a text, or itself, or NULL. */
static const char test_text[] = "hello";
static void *test_follow(uint8_t *p, uint32_t n) {
    return n == 100   ? (void *)(uintptr_t)test_text
           : n == 101 ? (void *)(uintptr_t)test_scale
           : n == 102 ? NULL
           : n >= 200 ? (void *)(uintptr_t)(0x10000u + n)
                      : p + n;
}

typedef struct {
    uint8_t *p;
    void *result;
    uint32_t n;
} test_follow_slots_t;

static void test_follow_thunk(bp_fn_t *fn, void *slots) {
    test_follow_slots_t *s = slots;
    s->result = ((void *(*)(uint8_t *, uint32_t))fn)(s->p, s->n);
}

/* Both arguments are within one. */
static int test_follow_unpack(bp_call_t *call, void *slots) {
    test_follow_slots_t *s = slots;
    bp_call_t inner = bp_arg_inner(call, 2);
    s->p = bp_arg_pointer(&inner, 1);
    s->n = bp_arg_u32(&inner);
    bp_arg_end(&inner);
    return inner.err != 0 ? bp_fail(call, inner.err, inner.detail) : 0;
}

static void test_follow_pack(bp_call_t *call, const void *slots) {
    bp_ret_pointer(call, ((const test_follow_slots_t *)slots)->result);
}

static const bp_target_t test_follow_target BP_ROM = {.fn = (bp_fn_t *)test_follow,
                                                      .thunk = test_follow_thunk,
                                                      .unpack = test_follow_unpack,
                                                      .pack = test_follow_pack};

/* Doubles a struct of two numbers, which is passed by value. */
static int test_twice(bp_call_t *call) {
    const int32_t *in = bp_arg_struct(call, 8);
    int32_t *out = bp_arg_struct(call, 8);
    if (bp_arg_end(call) == 0) {
        out[0] = in[0] * 2;
        out[1] = in[1] * 2;
        bp_ret_nil(call);
    }
    return call->err;
}

#endif

/* Takes 200 bytes of stack and a few more, and writes them all. */
static void test_deep(void) {
    volatile uint8_t bytes[200];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = 1;
    }
    test_note('f');
}

static const bp_target_t test_deep_target BP_ROM = {
    .fn = test_deep, .setup = test_work_setup, .check = test_work_check};

/* Nine pointers to bytes -> how many of them are NULL */
static int test_nine(bp_call_t *call) {
    uint32_t nulls = 0;
    for (int i = 0; i < 9; i++) {
        nulls += bp_arg_span(call, 1) == NULL ? 1 : 0;
    }
    if (bp_arg_end(call) == 0) {
        bp_ret_uint(call, nulls);
    }
    return call->err;
}

#endif

/// Collectors that count calls of `work` ///

typedef struct {
    uint32_t start;
    uint32_t stop;
} test_probe_t;

static void test_probe_init(void) {
    test_note('i');
}

static void test_probe_a_start(void *state) {
    test_note('A');
    ((test_probe_t *)state)->start = test_worked;
}

static void test_probe_a_stop(void *state) {
    test_note('a');
    ((test_probe_t *)state)->stop = test_worked;
}

static void test_probe_b_start(void *state) {
    test_note('B');
    ((test_probe_t *)state)->start = test_worked;
}

static void test_probe_b_stop(void *state) {
    test_note('b');
    ((test_probe_t *)state)->stop = test_worked;
}

static void test_probe_encode(uint8_t *out, const void *state) {
    const test_probe_t *s = state;
    memset(bp_put_u32(bp_put_u32(out, s->start), s->stop), 0x5a, TEST_PROBE_BODY - 8);
}

static const char test_name_probe_a[] BP_ROM = "probe_a";
static const char test_name_probe_b[] BP_ROM = "probe_b";
static const char test_name_calls[] BP_ROM = "calls";
static const char test_source_calls[] BP_ROM = "test_worked";

static void test_probe_counter(bp_counter_t *out, uint8_t index) {
    (void)index;
    out->name = test_name_calls;
    out->source = test_source_calls;
    out->bits = 32;
    out->status = BP_COUNTER_OK;
}

static const bp_collector_t test_probe_a BP_ROM = {
    .name = test_name_probe_a,
    .init = test_probe_init,
    .start = test_probe_a_start,
    .stop = test_probe_a_stop,
    .encode = test_probe_encode,
    .counter = test_probe_counter,
    .layout_crc = 0x11223344u,
    .schema_id = 60000u,
    .body_length = TEST_PROBE_BODY,
    .version = 1,
    .state_bytes = sizeof(test_probe_t),
    .counters = 1,
};

static const bp_collector_t test_probe_b BP_ROM = {
    .name = test_name_probe_b,
    .init = test_probe_init,
    .start = test_probe_b_start,
    .stop = test_probe_b_stop,
    .encode = test_probe_encode,
    .counter = test_probe_counter,
    .layout_crc = 0x11223344u,
    .schema_id = 60000u,
    .body_length = TEST_PROBE_BODY,
    .version = 1,
    .state_bytes = sizeof(test_probe_t),
    .counters = 1,
};

#if BP_CFG_OPEN_WINDOWS && defined(TEST_PROGRAMMABLE)

/// A collector with two slots: each counts `work` as often as its event's code says ///

enum { TEST_SLOTS = 2, TEST_STUCK_CODE = 13, TEST_CODES = 255 };

typedef struct {
    uint32_t start[TEST_SLOTS];
    uint32_t stop[TEST_SLOTS];
} test_slots_t;

static uint32_t test_codes[TEST_SLOTS]; /* 0: off */

static void test_slots_init(void) {
    memset(test_codes, 0, sizeof test_codes);
}

static void test_slots_read(uint32_t *out) {
    for (int i = 0; i < TEST_SLOTS; i++) {
        out[i] = test_codes[i] * test_worked;
    }
}

static void test_slots_start(void *state) {
    test_slots_read(((test_slots_t *)state)->start);
}

static void test_slots_stop(void *state) {
    test_slots_read(((test_slots_t *)state)->stop);
}

static void test_slots_encode(uint8_t *out, const void *state) {
    const test_slots_t *s = state;
    for (int i = 0; i < TEST_SLOTS; i++) {
        out = bp_put_u32(bp_put_u32(out, s->start[i]), s->stop[i]);
    }
}

static const char test_name_slots[] BP_ROM = "slots";
static const char test_name_slot0[] BP_ROM = "slot0";
static const char test_name_slot1[] BP_ROM = "slot1";
static const char test_name_event[] BP_ROM = "twice";
static const char test_text_event[] BP_ROM = "counts each call of work twice";

static void test_slots_counter(bp_counter_t *out, uint8_t index) {
    out->name = index == 0 ? test_name_slot0 : test_name_slot1;
    out->source = test_source_calls;
    out->bits = 32;
    out->status = test_codes[index] == 0 ? BP_COUNTER_ABSENT : BP_COUNTER_OK;
}

/* The control register of code 13 does not read back. */
static int test_slots_select(bp_call_t *call) {
    uint32_t codes[TEST_SLOTS] = {0};
    uint8_t count = call->argc;
    for (int i = 0; i < TEST_SLOTS && call->argc != 0; i++) {
        codes[i] = (uint32_t)bp_arg_uint(call, TEST_CODES);
    }
    if (call->argc != 0) {
        return bp_fail(call, BP_ERR_ARG_RANGE, call->argc);
    }
    if (bp_arg_end(call) != 0) {
        return call->err;
    }
    bp_ret_array(call, count);
    for (int i = 0; i < TEST_SLOTS; i++) {
        bool stuck = codes[i] == TEST_STUCK_CODE;
        test_codes[i] = stuck ? 0 : codes[i];
        if (i < count) {
            bp_ret_array(call, 2);
            bp_ret_uint(call, stuck ? BP_COUNTER_STUCK : BP_COUNTER_OK);
            bp_ret_uint(call, stuck ? TEST_STUCK_CODE : 0);
        }
    }
    return call->err;
}

static int test_slots_event(bp_call_t *call) {
    uint32_t index = bp_arg_u32(call);
    if (bp_arg_end(call) != 0) {
        return call->err;
    }
    if (index != 0) {
        bp_ret_nil(call);
        return 0;
    }
    bp_ret_array(call, 2);
    bp_ret_text(call, test_name_event);
    bp_ret_text(call, test_text_event);
    return call->err;
}

static const bp_collector_t test_slots BP_ROM = {
    .name = test_name_slots,
    .init = test_slots_init,
    .start = test_slots_start,
    .stop = test_slots_stop,
    .encode = test_slots_encode,
    .counter = test_slots_counter,
    .select = test_slots_select,
    .event = test_slots_event,
    .layout_crc = 0x55667788u,
    .schema_id = 60001u,
    .body_length = 4 * 2 * TEST_SLOTS,
    .version = 1,
    .state_bytes = sizeof(test_slots_t),
    .counters = TEST_SLOTS,
};

#endif

extern const bp_collector_t bp_collector_cycles_instret;
extern const bp_collector_t bp_collector_ticks;

/// The table ///

static const char test_name_count[] BP_ROM = "count";
static const char test_name_echo[] BP_ROM = "echo";
static const char test_name_fill[] BP_ROM = "fill";
static const char test_name_refuse[] BP_ROM = "refuse";
static const char test_name_work[] BP_ROM = "work";
static const char test_name_add[] BP_ROM = "add";
static const char test_name_half[] BP_ROM = "half";
#if BP_CFG_GUARD
static const char test_name_trap[] BP_ROM = "trap";
#endif
#if BP_CFG_STREAM
static const char test_name_record[] BP_ROM = "record";
#endif
#ifdef TEST_POINTERS
static const char test_name_scale[] BP_ROM = "scale";
static const char test_name_deep[] BP_ROM = "deep";
static const char test_name_nine[] BP_ROM = "nine";
#if BP_CFG_ARENA
static const char test_name_follow[] BP_ROM = "follow";
static const char test_name_twice[] BP_ROM = "twice";
static const char test_name_point[] BP_ROM = "bp.point";
static const char test_name_unpoint[] BP_ROM = "bp.unpoint";
static const char test_name_text_at[] BP_ROM = "bp.text_at";
static const char test_name_crc[] BP_ROM = "bp.crc";
static const char test_signature_follow[] BP_ROM = "(p: u8*, n: u32) -> u8*";
#endif
static const char test_signature_scale[] BP_ROM = "(y: i32*, n: u32) -> void";
#endif
static const char test_signature_none[] BP_ROM = "";
static const char test_signature_work[] BP_ROM = "() -> void";
static const char test_signature_add[] BP_ROM = "(a: i32, b: i32) -> i32";
static const char test_board[] BP_ROM = "memory";

static const bp_function_t test_functions[] BP_ROM = {
    {test_name_count, test_signature_none, test_count, NULL},
    {test_name_echo, test_signature_none, test_echo, NULL},
    {test_name_fill, test_signature_none, test_fill, NULL},
    {test_name_refuse, test_signature_none, test_refuse, NULL},
    {test_name_work, test_signature_work, NULL, &test_work_target},
    {test_name_add, test_signature_add, NULL, &test_add_target},
    {test_name_half, test_signature_none, test_half, NULL},
#if BP_CFG_GUARD
    {test_name_trap, test_signature_none, test_trap, NULL},
#endif
#if BP_CFG_STREAM
    {test_name_record, test_signature_none, test_record, NULL},
#endif
#ifdef TEST_POINTERS
    {test_name_nine, test_signature_none, test_nine, NULL},
    {test_name_deep, test_signature_work, NULL, &test_deep_target},
    {test_name_scale, test_signature_scale, NULL, &test_scale_target},
#if BP_CFG_ARENA
    {test_name_follow, test_signature_follow, NULL, &test_follow_target},
    {test_name_twice, test_signature_none, test_twice, NULL},
    {test_name_point, test_signature_none, bp_point, NULL},
    {test_name_unpoint, test_signature_none, bp_unpoint, NULL},
    {test_name_text_at, test_signature_none, bp_text_at, NULL},
    {test_name_crc, test_signature_none, bp_arena_crc, NULL},
#endif
#endif
};

static const bp_collector_t *const test_collectors[] BP_ROM = {
    &test_probe_a,
    &test_probe_b,
#if BP_CFG_OPEN_WINDOWS && defined(TEST_PROGRAMMABLE)
    &test_slots,
#endif
    &bp_collector_cycles_instret,
    &bp_collector_ticks,
#if BP_CFG_INTERRUPTS > 1
    &bp_collector_interrupts,
#endif
};

const bp_firmware_t bp_firmware BP_ROM = {
    .board = test_board,
    .functions = test_functions,
    .collectors = test_collectors,
    .function_count = sizeof test_functions / sizeof test_functions[0],
    .collector_count = sizeof test_collectors / sizeof test_collectors[0],
    .build_id = {1, 2, 3, 4, 5, 6, 7, 8},
};
