/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests call through cffi: one agent, and the codecs one by one. */

#include <string.h>

#include "boardprof/bp.h"
#include "boardprof/bp_frame.h"
#include "bp_internal.h"
#include "firmware.h"
#include "port_memory.h"

/// The agent ///

/* As after a reset, except that static memory keeps what it had: a session forgets it. */
void test_boot(void);
void test_boot(void) {
    test_port_reset();
    test_firmware_reset();
    bp_init();
}

void test_run(void);
void test_run(void) {
    while (bp_poll() != 0) {
    }
}

/* One poll; returns what it says. */
size_t test_poll(void);
size_t test_poll(void) {
    return bp_poll();
}

#if BP_CFG_BULK
/* Go on with the open stream as if so many bytes had passed already. */
void test_stream_at(uint32_t offset);
void test_stream_at(uint32_t offset) {
    bp_channel.passed = bp_channel.next = bp_channel.sent = bp_channel.end = offset;
}
#endif

#if BP_CFG_TRACE
#include "probes.h"

void test_shared_too(void) {
    BP_MARK(shared);
}
#endif

/// Frames ///

/* Encode a frame of this agent's version. Returns its length at `out`. */
size_t test_frame_encode(uint8_t *out, uint8_t kind, uint16_t session, uint32_t sequence,
                         const uint8_t *body, size_t length);
size_t test_frame_encode(uint8_t *out, uint8_t kind, uint16_t session, uint32_t sequence,
                         const uint8_t *body, size_t length) {
    size_t lead = BP_FRAME_LEAD(BP_FRAME_RAW(length));
    memcpy(out + lead + BP_FRAME_HEADER, body, length);
    return bp_frame_seal(out, lead, length, kind, session, sequence);
}

/* Give the decoder some bytes. Returns what it says at the first delimiter that ends something: the
 * decoded length, with the bytes at `raw`, or -1; 0 when nothing came to an end. */
int test_frame_decode(uint8_t *raw, const uint8_t *wire, size_t length);
int test_frame_decode(uint8_t *raw, const uint8_t *wire, size_t length) {
    static bp_receiver_t decoder;
    decoder.length = decoder.group = decoder.code = 0;
    decoder.bad = false;
    for (size_t i = 0; i < length;) {
#if BP_CFG_BULK
        int taken;
        size_t piece = length - i < 100 ? length - i : 100;
        i += bp_frame_take_some(&decoder, wire + i, piece, &taken);
#else
        int taken = bp_frame_take(&decoder, wire[i++]);
#endif
        if (taken > 0) {
            memcpy(raw, decoder.frame, (size_t)taken);
        }
        if (taken != 0) {
            return taken;
        }
    }
    return 0;
}

/// Messages and blobs ///

#define TEST_PUT(name)                                              \
    size_t test_put_##name(uint8_t *out, const bp_##name##_t *in);  \
    size_t test_put_##name(uint8_t *out, const bp_##name##_t *in) { \
        return (size_t)(bp_##name##_put(out, in) - out);            \
    }

TEST_PUT(hello)
TEST_PUT(claim)
TEST_PUT(welcome)
TEST_PUT(busy)
TEST_PUT(data)
TEST_PUT(ack)
TEST_PUT(span)
TEST_PUT(span_copy)
TEST_PUT(place)
TEST_PUT(token)
TEST_PUT(trace_block)
TEST_PUT(trace_slot)
TEST_PUT(trace_kept)
TEST_PUT(sample32)
TEST_PUT(sample64)
TEST_PUT(blob_header)
TEST_LAYOUTS(TEST_PUT)

/* The whole blob by the real collector, from a stopped state. */
#define TEST_BLOB(name)                                                       \
    extern const bp_collector_t bp_collector_##name;                          \
    size_t test_blob_##name(uint8_t *out, const bp_##name##_t *state);        \
    size_t test_blob_##name(uint8_t *out, const bp_##name##_t *state) {       \
        return (size_t)(bp_blob_put(out, &bp_collector_##name, state) - out); \
    }

TEST_COLLECTORS(TEST_BLOB) /* the build names both */

/// msgpack ///

/* A value of any of the types below. */
typedef union {
    uint64_t u;
    int64_t i;
    double f;
} test_value_t;

enum test_type {
    TEST_U32,
    TEST_U64,
    TEST_I64,
    TEST_I8,
    TEST_U8,
    TEST_BOOL,
    TEST_F32,
    TEST_F64,
    TEST_BYTES,
    TEST_NIL,
    TEST_UINT,
    TEST_TEXT,
    TEST_ARRAY,
};

static const uint8_t *test_read(bp_call_t *call, int type, test_value_t *out, size_t *length) {
    switch (type) {
    case TEST_U32:
        out->u = bp_arg_u32(call);
        break;
    case TEST_U64:
        out->u = bp_arg_u64(call);
        break;
    case TEST_I64:
        out->i = bp_arg_i64(call);
        break;
    case TEST_I8:
        out->i = bp_arg_int(call, INT8_MIN, INT8_MAX);
        break;
    case TEST_U8:
        out->u = bp_arg_uint(call, UINT8_MAX);
        break;
    case TEST_BOOL:
        out->u = bp_arg_bool(call);
        break;
    case TEST_F32:
        out->f = (double)bp_arg_f32(call);
        break;
    case TEST_F64:
        out->f = bp_arg_f64(call);
        break;
    default:
        return bp_arg_bytes(call, length);
    }
    return NULL;
}

/* Read one argument of `type`, `argc` of them announced, after the error `err`. Returns the call's
 * error. The value is at `out`, or the bytes at `bytes` and their number at `length`. */
int test_arg(int type, const uint8_t *in, size_t in_length, uint8_t argc, int8_t err,
             test_value_t *out, uint8_t *bytes, size_t *length);
int test_arg(int type, const uint8_t *in, size_t in_length, uint8_t argc, int8_t err,
             test_value_t *out, uint8_t *bytes, size_t *length) {
    bp_call_t call = {.in = in, .in_end = in + in_length, .argc = argc, .err = err};
    *length = 0;
    const uint8_t *found = test_read(&call, type, out, length);
    if (found != NULL) {
        memcpy(bytes, found, *length);
    }
    return bp_arg_end(&call);
}

/* Write one value of `type` with room for `capacity` bytes. Returns the length or the error. */
int test_ret(int type, uint8_t *out, size_t capacity, const test_value_t *value,
             const uint8_t *bytes, size_t length);
int test_ret(int type, uint8_t *out, size_t capacity, const test_value_t *value,
             const uint8_t *bytes, size_t length) {
    bp_call_t call = {.out = out, .out_end = out + capacity};
    switch (type) {
    case TEST_NIL:
        bp_ret_nil(&call);
        break;
    case TEST_BOOL:
        bp_ret_bool(&call, value->u != 0);
        break;
    case TEST_UINT:
        bp_ret_uint(&call, (uint32_t)value->u);
        break;
    case TEST_U64:
        bp_ret_u64(&call, value->u);
        break;
    case TEST_I64:
        bp_ret_i64(&call, value->i);
        break;
    case TEST_F32:
        bp_ret_f32(&call, (float)value->f);
        break;
    case TEST_F64:
        bp_ret_f64(&call, value->f);
        break;
    case TEST_TEXT:
        bp_ret_text(&call, (const char *)bytes);
        break;
    case TEST_ARRAY:
        bp_ret_array(&call, (uint8_t)length);
        for (size_t i = 0; i < length; i++) {
            bp_ret_uint(&call, bytes[i]);
        }
        break;
    default:
        bp_ret_bytes(&call, bytes, length);
        break;
    }
    return call.err != 0 ? call.err : (int)(call.out - out);
}
