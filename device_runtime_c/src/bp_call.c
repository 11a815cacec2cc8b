/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments and replies, in the subset of msgpack that SPEC.md 4.1 allows. */

#include "boardprof/bp.h"
#include "bp_internal.h"

int bp_fail(bp_call_t *call, int err, uint32_t detail) {
    if (call->err == 0) {
        call->err = err;
        call->detail = detail;
    }
    return call->err;
}

/// Reader ///

/* The next `length` bytes of the body; NULL if it is shorter or there was an error. */
static const uint8_t *bp_take(bp_call_t *call, size_t length) {
    const uint8_t *bytes = call->in;
    if (call->err != 0 || (size_t)(call->in_end - bytes) < length) {
        bp_fail(call, BP_ERR_MALFORMED, 0);
        return NULL;
    }
    call->in = bytes + length;
    return bytes;
}

static uint32_t bp_take_be(bp_call_t *call, uint8_t length) {
    uint32_t value = 0;
    const uint8_t *bytes = bp_take(call, length);
    while (bytes != NULL && length--) {
        value = value << 8 | *bytes++;
    }
    return value;
}

/* The next argument's first byte; 0 after an error, which every type reads as the value 0. */
static uint8_t bp_take_tag(bp_call_t *call) {
    if (call->argc == 0) {
        bp_fail(call, BP_ERR_ARG_COUNT, 0);
        return 0;
    }
    call->argc--;
    return (uint8_t)bp_take_be(call, 1);
}

static int bp_wrong(bp_call_t *call, int err) {
    return bp_fail(call, err, call->argc);
}

uint8_t bp_arg_array(bp_call_t *call) {
    uint8_t tag = (uint8_t)bp_take_be(call, 1);
    if ((tag & 0xf0u) != BP_TAG_FIXARRAY) {
        bp_fail(call, BP_ERR_MALFORMED, tag);
        return 0;
    }
    return tag & 15u;
}

int bp_arg_end(bp_call_t *call) {
    if (call->argc != 0 || call->in != call->in_end) {
        bp_fail(call, BP_ERR_ARG_COUNT, call->argc);
    }
    return call->err;
}

uint32_t bp_arg_u32(bp_call_t *call) {
    uint8_t tag = bp_take_tag(call);
    if (tag < 0x80u) {
        return tag;
    }
    if (tag < BP_TAG_UINT8 || tag > BP_TAG_UINT32) {
        bp_wrong(call, BP_ERR_ARG_TYPE);
        return 0;
    }
    return bp_take_be(call, (uint8_t)(1u << (tag - BP_TAG_UINT8)));
}

static uint64_t bp_take_be64(bp_call_t *call) {
    uint32_t high = bp_take_be(call, 4);
    uint32_t low = bp_take_be(call, 4);
    return call->err != 0 ? 0 : (uint64_t)high << 32 | low;
}

uint64_t bp_arg_u64(bp_call_t *call) {
    if (call->in < call->in_end && *call->in == BP_TAG_UINT64) {
        bp_take_tag(call);
        return bp_take_be64(call);
    }
    return bp_arg_u32(call);
}

int64_t bp_arg_i64(bp_call_t *call) {
    uint8_t tag = call->in < call->in_end ? *call->in : (uint8_t)BP_TAG_NEVER;
    if (tag >= BP_TAG_NEGATIVE) {
        return (int8_t)bp_take_tag(call);
    }
    if (tag < BP_TAG_INT8 || tag > BP_TAG_INT64) {
        uint64_t value = bp_arg_u64(call);
        if (value > INT64_MAX) {
            bp_wrong(call, BP_ERR_ARG_RANGE);
            return 0;
        }
        return (int64_t)value;
    }
    bp_take_tag(call);
    switch (tag) {
    case BP_TAG_INT8:
        return (int8_t)bp_take_be(call, 1);
    case BP_TAG_INT16:
        return (int16_t)bp_take_be(call, 2);
    case BP_TAG_INT32:
        return (int32_t)bp_take_be(call, 4);
    default:
        return (int64_t)bp_take_be64(call);
    }
}

int64_t bp_arg_int(bp_call_t *call, int64_t minimum, int64_t maximum) {
    int64_t value = bp_arg_i64(call);
    if (value < minimum || value > maximum) {
        bp_wrong(call, BP_ERR_ARG_RANGE);
        return 0;
    }
    return value;
}

uint64_t bp_arg_uint(bp_call_t *call, uint64_t maximum) {
    uint64_t value = bp_arg_u64(call);
    if (value > maximum) {
        bp_wrong(call, BP_ERR_ARG_RANGE);
        return 0;
    }
    return value;
}

bool bp_arg_bool(bp_call_t *call) {
    uint8_t tag = bp_take_tag(call);
    if (tag != BP_TAG_FALSE && tag != BP_TAG_TRUE) {
        bp_wrong(call, BP_ERR_ARG_TYPE);
    }
    return tag == BP_TAG_TRUE;
}

float bp_arg_f32(bp_call_t *call) {
    union {
        uint32_t bits;
        float value;
    } as = {0};
    if (bp_take_tag(call) == BP_TAG_FLOAT32) {
        as.bits = bp_take_be(call, 4);
    } else {
        bp_wrong(call, BP_ERR_ARG_TYPE);
    }
    return as.value;
}

double bp_arg_f64(bp_call_t *call) {
#if __SIZEOF_DOUBLE__ == 8
    union {
        uint64_t bits;
        double value;
    } as = {0};
    if (bp_take_tag(call) == BP_TAG_FLOAT64) {
        as.bits = bp_take_be64(call);
    } else {
        bp_wrong(call, BP_ERR_ARG_TYPE);
    }
    return as.value;
#else
    bp_fail(call, BP_ERR_UNSUPPORTED, 0); /* double is float here (AVR) */
    return 0;
#endif
}

const uint8_t *bp_arg_bytes(bp_call_t *call, size_t *length) {
    uint8_t tag = bp_take_tag(call);
    *length = 0;
    if (tag == BP_TAG_BIN8 || tag == BP_TAG_BIN16) {
        *length = (size_t)bp_take_be(call, (uint8_t)(tag - BP_TAG_BIN8 + 1));
    } else {
        bp_wrong(call, BP_ERR_ARG_TYPE);
    }
    const uint8_t *bytes = bp_take(call, *length);
    if (call->err != 0) {
        *length = 0;
        return NULL;
    }
    return bytes;
}

/// Writer ///

/* Reserve `length` bytes of the reply; NULL if they do not fit. */
static uint8_t *bp_ret_reserve(bp_call_t *call, size_t length) {
    uint8_t *out = call->out;
    if (call->err != 0 || (size_t)(call->out_end - out) < length) {
        bp_fail(call, BP_ERR_REPLY_TOO_BIG, (uint32_t)length);
        return NULL;
    }
    call->out = out + length;
    return out;
}

static void bp_store_be(uint8_t *out, uint32_t value, uint8_t length) {
    while (length != 0) {
        out[--length] = (uint8_t)value;
        value >>= 8;
    }
}

/* Write a tag and the low `length` bytes of `value`, most significant first. */
static void bp_ret_be(bp_call_t *call, uint8_t tag, uint32_t value, uint8_t length) {
    uint8_t *out = bp_ret_reserve(call, 1u + length);
    if (out != NULL) {
        *out = tag;
        bp_store_be(out + 1, value, length);
    }
}

static void bp_ret_be64(bp_call_t *call, uint8_t tag, uint64_t value) {
    bp_ret_be(call, tag, (uint32_t)(value >> 32), 4);
    uint8_t *out = bp_ret_reserve(call, 4);
    if (out != NULL) {
        bp_store_be(out, (uint32_t)value, 4);
    }
}

void bp_ret_nil(bp_call_t *call) {
    bp_ret_be(call, BP_TAG_NIL, 0, 0);
}

void bp_ret_bool(bp_call_t *call, bool value) {
    bp_ret_be(call, value ? BP_TAG_TRUE : BP_TAG_FALSE, 0, 0);
}

void bp_ret_uint(bp_call_t *call, uint32_t value) {
    if (value < 0x80u) {
        bp_ret_be(call, (uint8_t)value, 0, 0);
    } else {
        bp_ret_be(call, BP_TAG_UINT32, value, 4);
    }
}

void bp_ret_u64(bp_call_t *call, uint64_t value) {
    bp_ret_be64(call, BP_TAG_UINT64, value);
}

void bp_ret_i64(bp_call_t *call, int64_t value) {
    bp_ret_be64(call, BP_TAG_INT64, (uint64_t)value);
}

void bp_ret_f32(bp_call_t *call, float value) {
    union {
        float value;
        uint32_t bits;
    } as = {value};
    bp_ret_be(call, BP_TAG_FLOAT32, as.bits, 4);
}

void bp_ret_f64(bp_call_t *call, double value) {
#if __SIZEOF_DOUBLE__ == 8
    union {
        double value;
        uint64_t bits;
    } as = {value};
    bp_ret_be64(call, BP_TAG_FLOAT64, as.bits);
#else
    bp_ret_f32(call, (float)value); /* double is float here (AVR) */
#endif
}

uint8_t *bp_ret_bin(bp_call_t *call, size_t length) {
    bp_ret_be(call, BP_TAG_BIN16, (uint32_t)length, 2);
    return bp_ret_reserve(call, length);
}

void bp_ret_bytes(bp_call_t *call, const void *bytes, size_t length) {
    const uint8_t *in = bytes;
    uint8_t *out = bp_ret_bin(call, length);
    while (out != NULL && length--) {
        *out++ = *in++;
    }
}

static uint_fast8_t bp_rom_length(const char *rom_text) {
    uint_fast8_t length = 0;
    while (BP_ROM_GET(rom_text[length]) != 0) {
        length++;
    }
    return length;
}

/* Write the head of a text and reserve its bytes. */
static uint8_t *bp_ret_str(bp_call_t *call, uint_fast8_t length) {
    bp_ret_be(call, BP_TAG_STR8, length, 1);
    return bp_ret_reserve(call, length);
}

void bp_ret_text(bp_call_t *call, const char *rom_text) {
    uint_fast8_t length = bp_rom_length(rom_text);
    uint8_t *out = bp_ret_str(call, length);
    while (out != NULL && length--) {
        *out++ = (uint8_t)BP_ROM_GET(*rom_text++);
    }
}

#if BP_CFG_OPEN_WINDOWS
void bp_ret_joined(bp_call_t *call, const char *first, const char *second) {
    uint_fast8_t left = bp_rom_length(first);
    uint_fast8_t length = (uint_fast8_t)(left + bp_rom_length(second));
    uint8_t *out = bp_ret_str(call, length);
    for (uint_fast8_t i = 0; out != NULL && i < length; i++) {
        out[i] = (uint8_t)(i < left ? BP_ROM_GET(first[i]) : BP_ROM_GET(second[i - left]));
    }
}
#endif

void bp_ret_array(bp_call_t *call, uint8_t items) {
    bp_ret_be(call, (uint8_t)(BP_TAG_FIXARRAY | items), 0, 0);
}
