/* SPDX-License-Identifier: Apache-2.0 */
/* Frames as SPEC.md 2 describes them, written down a second time. */

#include <string.h>

#include "fuzz_board.h"

static uint32_t fuzz_crc32(const uint8_t *bytes, size_t length) {
    static uint32_t table[256];
    for (uint32_t i = 1; table[255] == 0 && i < 256; i++) {
        uint32_t row = i;
        for (int bit = 0; bit < 8; bit++) {
            row = (row & 1u) != 0 ? row >> 1 ^ 0xedb88320u : row >> 1;
        }
        table[i] = row;
    }
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < length; i++) {
        crc = table[(crc ^ bytes[i]) & 255u] ^ crc >> 8;
    }
    return ~crc;
}

static uint32_t fuzz_le(const uint8_t *bytes, size_t count) {
    uint32_t value = 0;
    while (count-- != 0) {
        value = value << 8 | bytes[count];
    }
    return value;
}

static void fuzz_put_le(uint8_t *out, uint32_t value, size_t count) {
    for (size_t i = 0; i < count; i++) {
        out[i] = (uint8_t)(value >> 8 * i);
    }
}

/* Returns the decoded length, or -1 when a group is longer than what is left. */
static long fuzz_uncobs(uint8_t *raw, const uint8_t *encoded, size_t length) {
    size_t at = 0;
    size_t out = 0;
    while (at < length) {
        size_t group = (size_t)encoded[at] - 1;
        if (group > length - at - 1) {
            return -1;
        }
        memcpy(raw + out, encoded + at + 1, group);
        out += group;
        at += group + 1;
        if (group != 254 && at < length) {
            raw[out++] = 0;
        }
    }
    return (long)out;
}

fuzz_piece_t fuzz_decode(uint8_t *raw, const uint8_t *encoded, size_t length) {
    long decoded = fuzz_uncobs(raw, encoded, length);
    fuzz_piece_t piece = {.empty = decoded == 0};
    if (decoded < 11) {
        return piece;
    }
    size_t checked = (size_t)decoded - 4;
    piece.valid = fuzz_crc32(raw, checked) == fuzz_le(raw + checked, 4);
    piece.first = raw[0];
    piece.session = (uint16_t)fuzz_le(raw + 1, 2);
    piece.sequence = fuzz_le(raw + 3, 4);
    piece.raw_length = (size_t)decoded;
    piece.body = raw + 7;
    piece.length = checked - 7;
    return piece;
}

size_t fuzz_encode(uint8_t *out, uint8_t first, uint16_t session, uint32_t sequence,
                   const uint8_t *body, size_t length) {
    uint8_t raw[1u << 16];
    raw[0] = first;
    fuzz_put_le(raw + 1, session, 2);
    fuzz_put_le(raw + 3, sequence, 4);
    memcpy(raw + 7, body, length);
    fuzz_put_le(raw + 7 + length, fuzz_crc32(raw, 7 + length), 4);
    size_t count = length + 11;
    size_t end = 1;
    out[0] = 0;
    for (size_t at = 0;; at++) {
        size_t code = end++;
        size_t group = at;
        while (at < count && raw[at] != 0 && at - group < 254) {
            out[end++] = raw[at++];
        }
        out[code] = (uint8_t)(at - group + 1);
        if (at >= count) {
            break;
        }
        at -= at - group == 254; /* a full group stands for no zero */
    }
    out[end++] = 0;
    return end;
}
