/* SPDX-License-Identifier: Apache-2.0 */
/* What the sanitizers cannot see: an access beyond a block is still within the arena, one beyond a
 * body within the agent's buffer. So a RESULT must follow from the CALL that it answers. */

#include "fuzz_oracle.h"

#include <string.h>

enum { FUZZ_BLOCKS = 32 };

typedef struct {
    uint32_t handle;
    uint32_t length; /* 0: this entry is free */
} fuzz_block_t;

static fuzz_block_t fuzz_blocks[FUZZ_BLOCKS];
static uint32_t fuzz_channel;        /* number of the CALL that opened the last one */
static uint32_t fuzz_channel_length; /* of its block; UINT32_MAX: a stream, or not known */

static uint32_t fuzz_be(const uint8_t *bytes, size_t count) {
    uint32_t value = 0;
    while (count-- != 0) {
        value = value << 8 | *bytes++;
    }
    return value;
}

bool fuzz_number(const uint8_t **at, const uint8_t *end, uint32_t *value) {
    if (*at == end) {
        return false;
    }
    uint8_t tag = *(*at)++;
    if (tag < 0x80) {
        *value = tag;
        return true;
    }
    size_t bytes = tag >= 0xcc && tag <= 0xce ? (size_t)1 << (tag - 0xcc) : 0;
    if (bytes == 0 || (size_t)(end - *at) < bytes) {
        return false;
    }
    *value = fuzz_be(*at, bytes);
    *at += bytes;
    return true;
}

/* Bytes of the item at `at`, 0: it is none that a board reads, or it is cut off. */
static size_t fuzz_item(const uint8_t *at, const uint8_t *end) {
    static const uint8_t behind[20] = {[0x0] = 0,  [0xa] = 4,  [0xb] = 8, [0xc] = 1,
                                       [0xd] = 2,  [0xe] = 4,  [0xf] = 8, [0x10] = 1,
                                       [0x11] = 2, [0x12] = 4, [0x13] = 8};
    size_t left = (size_t)(end - at);
    uint8_t tag = left != 0 ? at[0] : 0xc1;
    size_t length = 0;
    if (tag < 0x80 || tag >= 0xe0 || tag == 0xc2 || tag == 0xc3) {
        length = 1;
    } else if (tag == 0xc4) {
        length = left >= 2 ? 2u + at[1] : 0;
    } else if (tag == 0xc5) {
        length = left >= 3 ? 3u + fuzz_be(at + 1, 2) : 0;
    } else if (tag >= 0xca && tag <= 0xd3) {
        length = 1u + behind[tag - 0xc0];
    }
    return length <= left ? length : 0;
}

static bool fuzz_is_whole(const fuzz_piece_t *call) {
    const uint8_t *at = call->body;
    const uint8_t *end = at + call->length;
    if (call->length == 0 || (at[0] & 0xf0u) != 0x90) {
        return false;
    }
    for (unsigned items = *at++ & 15u; items != 0; items--) {
        size_t length = fuzz_item(at, end);
        if (length == 0) {
            return false;
        }
        at += length;
    }
    return at == end;
}

static fuzz_block_t *fuzz_block(uint32_t handle) {
    for (unsigned i = 0; i < FUZZ_BLOCKS; i++) {
        if (fuzz_blocks[i].length != 0 && fuzz_blocks[i].handle == handle) {
            return &fuzz_blocks[i];
        }
    }
    return NULL;
}

static bool fuzz_add_block(uint32_t handle, uint32_t length) {
    for (unsigned i = 0; i < FUZZ_BLOCKS; i++) {
        if (fuzz_blocks[i].length == 0) {
            fuzz_blocks[i] = (fuzz_block_t){handle, length};
            return length != 0;
        }
    }
    return false;
}

static bool fuzz_holds(uint32_t handle, uint32_t offset, uint32_t length) {
    const fuzz_block_t *block = fuzz_block(handle);
    return block != NULL && (uint64_t)offset + length <= block->length;
}

void fuzz_forget_blocks(void) {
    memset(fuzz_blocks, 0, sizeof fuzz_blocks);
    fuzz_channel = 0;
    fuzz_channel_length = UINT32_MAX;
}

bool fuzz_follows(const fuzz_piece_t *call, const fuzz_piece_t *result) {
    uint32_t id;
    uint32_t a = 0;
    uint32_t b = 0;
    uint32_t c = 0;
    const uint8_t *at = call->body + 1;
    const uint8_t *end = call->body + call->length;
    if (!fuzz_is_whole(call) || !fuzz_number(&at, end, &id)) {
        return false;
    }
    bool has_a = fuzz_number(&at, end, &a);
    bool has_b = has_a && fuzz_number(&at, end, &b);
    const uint8_t *third = at;
    bool has_c = has_b && fuzz_number(&at, end, &c);
    if (id == fuzz_function("bp.alloc")) {
        const uint8_t *value = result->body;
        uint32_t handle;
        return has_a && fuzz_number(&value, value + result->length, &handle) &&
               fuzz_block(handle) == NULL && fuzz_add_block(handle, a);
    }
    if (id == fuzz_function("bp.free")) {
        fuzz_block_t *block = fuzz_block(a);
        if (block == NULL) {
            return false;
        }
        block->length = 0;
        return true;
    }
    if (id == fuzz_function("bp.read")) {
        return has_c && fuzz_holds(a, b, c) && result->length == 3u + c;
    }
    if (id == fuzz_function("bp.write")) {
        size_t head = third < end && *third == 0xc5 ? 3 : 2;
        return has_b && fuzz_holds(a, b, (uint32_t)((size_t)(end - third) - head));
    }
    if (id == fuzz_function("bp.download") || id == fuzz_function("bp.upload")) {
        fuzz_channel = call->sequence;
        fuzz_channel_length = c;
        return has_c && c != 0 && fuzz_holds(a, b, c);
    }
    return true;
}

bool fuzz_is_within_channel(uint32_t opener, uint32_t end) {
    return opener != fuzz_channel || end <= fuzz_channel_length;
}
