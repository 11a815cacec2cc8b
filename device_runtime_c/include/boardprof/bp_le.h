/* SPDX-License-Identifier: Apache-2.0 */
/* Little-endian stores and loads, byte by byte: no alignment, no casts, any byte order. */

#ifndef BOARDPROF_BP_LE_H
#define BOARDPROF_BP_LE_H

#include <stdint.h>

/* Each stores `value` at `out` and returns the first byte after it. */
uint8_t *bp_put_u8(uint8_t *out, uint8_t value);
uint8_t *bp_put_u16(uint8_t *out, uint16_t value);
uint8_t *bp_put_u32(uint8_t *out, uint32_t value);
uint8_t *bp_put_u64(uint8_t *out, uint64_t value);

uint16_t bp_get_u16(const uint8_t *in);
uint32_t bp_get_u32(const uint8_t *in);

#endif
