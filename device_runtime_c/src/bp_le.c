/* SPDX-License-Identifier: Apache-2.0 */
/* Little-endian loads and stores. Not inline, since encoders call them many times. */

#include "boardprof/bp_le.h"

uint8_t *bp_put_u8(uint8_t *out, uint8_t value) {
    out[0] = value;
    return out + 1;
}

uint8_t *bp_put_u16(uint8_t *out, uint16_t value) {
    out[0] = (uint8_t)value;
    out[1] = (uint8_t)(value >> 8);
    return out + 2;
}

uint8_t *bp_put_u32(uint8_t *out, uint32_t value) {
    for (uint_fast8_t i = 0; i < 4; i++) {
        *out++ = (uint8_t)value;
        value >>= 8;
    }
    return out;
}

uint8_t *bp_put_u64(uint8_t *out, uint64_t value) {
    return bp_put_u32(bp_put_u32(out, (uint32_t)value), (uint32_t)(value >> 32));
}

uint16_t bp_get_u16(const uint8_t *in) {
    return (uint16_t)(in[0] | (uint16_t)in[1] << 8);
}

uint32_t bp_get_u32(const uint8_t *in) {
    return bp_get_u16(in) | (uint32_t)bp_get_u16(in + 2) << 16;
}
