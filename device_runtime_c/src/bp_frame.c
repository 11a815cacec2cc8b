/* SPDX-License-Identifier: Apache-2.0 */
/* Framing: COBS (Cheshire and Baker, 1999) and CRC-32 (polynomial 0xedb88320, reflected). */

#include "boardprof/bp_frame.h"

/// CRC-32 ///

#if BP_CFG_CRC_TABLE == 1

static const uint32_t bp_crc_table[16] BP_ROM = {
    0x00000000u, 0x1db71064u, 0x3b6e20c8u, 0x26d930acu, 0x76dc4190u, 0x6b6b51f4u,
    0x4db26158u, 0x5005713cu, 0xedb88320u, 0xf00f9344u, 0xd6d6a3e8u, 0xcb61b38cu,
    0x9b64c2b0u, 0x86d3d2d4u, 0xa00ae278u, 0xbdbdf21cu,
};

static uint32_t bp_crc_byte(uint32_t crc, uint8_t byte) {
    crc ^= byte;
    crc = crc >> 4 ^ BP_ROM_GET(bp_crc_table[crc & 15]);
    return crc >> 4 ^ BP_ROM_GET(bp_crc_table[crc & 15]);
}

#else

static uint32_t bp_crc_byte(uint32_t crc, uint8_t byte) {
    crc ^= byte;
    for (uint_fast8_t bit = 0; bit < 8; bit++) {
        crc = crc >> 1 ^ (0xedb88320u & (0u - (crc & 1u)));
    }
    return crc;
}

#endif

#if BP_CFG_CRC_TABLE == 8

/* bp_crc_after[n][b]: the CRC of byte `b` followed by n zeros, from 0. Eight bytes at once are
 * eight independent look-ups: "slicing-by-8" (Kounavis and Berry, "Novel Table Lookup-Based
 * Algorithms for High-Performance CRC Generation", 2008). */
static uint32_t bp_crc_after[8][256];

static void bp_crc_prepare(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = 0;
        for (uint_fast8_t zeros = 0; zeros < 8; zeros++) {
            crc = bp_crc_byte(crc, zeros == 0 ? (uint8_t)byte : 0);
            bp_crc_after[zeros][byte] = crc;
        }
    }
}

uint32_t bp_crc32(uint32_t crc, const uint8_t *bytes, size_t length) {
    if (bp_crc_after[0][1] == 0) {
        bp_crc_prepare();
    }
    crc = ~crc;
    for (; length >= 8; length -= 8, bytes += 8) {
        uint32_t low = crc ^ ((uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 |
                              (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24);
        crc = bp_crc_after[7][low & 255] ^ bp_crc_after[6][low >> 8 & 255] ^
              bp_crc_after[5][low >> 16 & 255] ^ bp_crc_after[4][low >> 24] ^
              bp_crc_after[3][bytes[4]] ^ bp_crc_after[2][bytes[5]] ^ bp_crc_after[1][bytes[6]] ^
              bp_crc_after[0][bytes[7]];
    }
    while (length--) {
        crc = crc >> 8 ^ bp_crc_after[0][(crc ^ *bytes++) & 255];
    }
    return ~crc;
}

#else

uint32_t bp_crc32(uint32_t crc, const uint8_t *bytes, size_t length) {
    crc = ~crc;
    while (length--) {
        crc = bp_crc_byte(crc, *bytes++);
    }
    return ~crc;
}

#endif

/// COBS ///

/* bp_cobs encodes in place and returns the encoded length. `in` is ahead of `out` by at least one
 * byte for each group that follows, so that writing never overtakes reading. */
#if BP_FRAME_FAST

/* Move bytes up to the first zero, at most `most`; returns how many. memchr and memmove are only
 * faster if the run is not short. */
static size_t bp_cobs_run(uint8_t *out, const uint8_t *in, size_t most) {
    enum { SHORT = 12 };
    size_t run = 0;
    while (run < most && in[run] != 0) {
        if (run == SHORT) {
            const uint8_t *zero = __builtin_memchr(in + run, 0, most - run);
            most = zero != NULL ? (size_t)(zero - in) : most;
            __builtin_memmove(out + run, in + run, most - run);
            return most;
        }
        out[run] = in[run];
        run++;
    }
    return run;
}

static size_t bp_cobs(uint8_t *out, const uint8_t *in, size_t length) {
    uint8_t *const begin = out;
    const uint8_t *const end = in + length;
    for (;;) {
        size_t left = (size_t)(end - in);
        size_t run = bp_cobs_run(out + 1, in, left < 254 ? left : 254);
        *out = (uint8_t)(run + 1);
        out += run + 1;
        in += run;
        if (run == left) {
            return (size_t)(out - begin); /* no group follows a full one at the end */
        }
        in += run < 254; /* a full group does not stand for a zero */
    }
}

#else

static size_t bp_cobs(uint8_t *out, const uint8_t *in, size_t length) {
    uint8_t *const begin = out;
    const uint8_t *const end = in + length;
    uint8_t *code = out++;
    uint8_t group = 1;
    while (in < end) {
        uint8_t byte = *in++;
        if (byte != 0) {
            *out++ = byte;
            group++;
        }
        /* A full group does not stand for a zero, and at the end no group follows it. */
        if (byte == 0 || (group == 0xff && in < end)) {
            *code = group;
            code = out++;
            group = 1;
        }
    }
    *code = group;
    return (size_t)(out - begin);
}

#endif

size_t bp_frame_seal(uint8_t *buffer, size_t lead, size_t body_length, uint8_t kind,
                     uint16_t session, uint32_t sequence) {
    uint8_t *raw = buffer + lead;
    size_t length = BP_FRAME_HEADER + body_length;
    raw[0] = (uint8_t)(BP_PROTOCOL_VERSION << 4 | kind);
    bp_put_u32(bp_put_u16(raw + 1, session), sequence);
    bp_put_u32(raw + length, bp_crc32(0, raw, length));
    buffer[0] = 0;
    length = 1 + bp_cobs(buffer + 1, raw, length + BP_FRAME_CRC);
    buffer[length] = 0;
    return length + 1;
}

int bp_frame_take(bp_receiver_t *receiver, uint8_t byte) {
    if (byte == 0) {
        bool cut = receiver->bad || receiver->group != 0;
        int length = cut ? -1 : (int)receiver->length;
        receiver->length = 0;
        receiver->group = 0;
        receiver->code = 0;
        receiver->bad = false;
        return length;
    }
    bool decoded = true; /* whether a byte was decoded: this one, or the zero before its group */
    if (receiver->group != 0) {
        receiver->group--;
    } else {
        /* A group stands for its bytes and a zero, unless it is full or the last one. */
        decoded = receiver->code != 0 && receiver->code != 0xff;
        receiver->code = byte;
        receiver->group = (uint8_t)(byte - 1);
        byte = 0;
    }
    if (decoded && receiver->length < sizeof receiver->frame) {
        receiver->frame[receiver->length++] = byte;
    } else if (decoded) {
        receiver->bad = true;
    }
    return 0;
}

#if BP_CFG_BULK

size_t bp_frame_take_some(bp_receiver_t *receiver, const uint8_t *bytes, size_t count,
                          int *length) {
    size_t taken = 0;
    *length = 0;
    while (taken < count && *length == 0) {
#if BP_FRAME_FAST
        size_t room = sizeof receiver->frame - receiver->length;
        size_t most = receiver->group < room ? receiver->group : room;
        most = most < count - taken ? most : count - taken;
        size_t run =
            most != 0 ? bp_cobs_run(receiver->frame + receiver->length, bytes + taken, most) : 0;
        if (run != 0) {
            receiver->length = (uint16_t)(receiver->length + run);
            receiver->group = (uint8_t)(receiver->group - run);
            taken += run;
            continue;
        }
#endif
        *length = bp_frame_take(receiver, bytes[taken++]); /* a code or a delimiter, or no room */
    }
    return taken;
}

#endif
