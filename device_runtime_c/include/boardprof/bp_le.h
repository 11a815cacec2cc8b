/* SPDX-License-Identifier: Apache-2.0 */
/* Little-endian loads and stores, byte by byte: for any alignment and byte order, without casts. */

#ifndef BOARDPROF_BP_LE_H
#define BOARDPROF_BP_LE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Each stores `value` at `out` and returns the first byte after it. */
uint8_t *bp_put_u8(uint8_t *out, uint8_t value);
uint8_t *bp_put_u16(uint8_t *out, uint16_t value);
uint8_t *bp_put_u32(uint8_t *out, uint32_t value);
uint8_t *bp_put_u64(uint8_t *out, uint64_t value);

/* Two's complement, like the types themselves (C11, 7.20.1.1). */
static inline uint8_t *bp_put_i8(uint8_t *out, int8_t value) {
    return bp_put_u8(out, (uint8_t)value);
}

static inline uint8_t *bp_put_i16(uint8_t *out, int16_t value) {
    return bp_put_u16(out, (uint16_t)value);
}

static inline uint8_t *bp_put_i32(uint8_t *out, int32_t value) {
    return bp_put_u32(out, (uint32_t)value);
}

static inline uint8_t *bp_put_i64(uint8_t *out, int64_t value) {
    return bp_put_u64(out, (uint64_t)value);
}

/* IEEE 754, stored like the integer of the same size. */
static inline uint8_t *bp_put_f32(uint8_t *out, float value) {
    union {
        float value;
        uint32_t bits;
    } as = {value};
    return bp_put_u32(out, as.bits);
}

#if __SIZEOF_DOUBLE__ == 8 /* on AVR double is float: a layout with an f64 does not compile */
static inline uint8_t *bp_put_f64(uint8_t *out, double value) {
    union {
        double value;
        uint64_t bits;
    } as = {value};
    return bp_put_u64(out, as.bits);
}
#endif

uint16_t bp_get_u16(const uint8_t *in);
uint32_t bp_get_u32(const uint8_t *in);

#ifdef __cplusplus
}
#endif

#endif
