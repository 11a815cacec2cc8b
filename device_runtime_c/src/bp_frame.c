/* SPDX-License-Identifier: Apache-2.0 */
/* Framing: COBS (Cheshire and Baker, 1999) and CRC-32 (polynomial 0xedb88320, reflected). */

#include "bp_frame.h"

#if BP_CFG_CRC_TABLE

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

uint32_t bp_crc32(uint32_t crc, const uint8_t *bytes, size_t length) {
    crc = ~crc;
    while (length--) {
        crc = bp_crc_byte(crc, *bytes++);
    }
    return ~crc;
}

/* COBS in place: `in` stands at least one byte a group after `out`, so that writing never overtakes
 * reading. Returns the encoded length. */
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
        /* A full group says nothing about a zero after it; at the very end none is begun. */
        if (byte == 0 || (group == 0xff && in < end)) {
            *code = group;
            code = out++;
            group = 1;
        }
    }
    *code = group;
    return (size_t)(out - begin);
}

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

int bp_frame_take(bp_agent_t *agent, uint8_t byte) {
    if (byte == 0) {
        bool cut = agent->rx_bad || agent->rx_group != 0;
        int length = cut ? -1 : (int)agent->rx_length;
        agent->rx_length = 0;
        agent->rx_group = 0;
        agent->rx_code = 0;
        agent->rx_bad = false;
        return length;
    }
    bool decoded = true; /* the byte, or the zero before it */
    if (agent->rx_group != 0) {
        agent->rx_group--;
    } else {
        /* The zero that a group stands for is due only when another group follows. */
        decoded = agent->rx_code != 0 && agent->rx_code != 0xff;
        agent->rx_code = byte;
        agent->rx_group = (uint8_t)(byte - 1);
        byte = 0;
    }
    if (decoded && agent->rx_length < sizeof agent->rx) {
        agent->rx[agent->rx_length++] = byte;
    } else if (decoded) {
        agent->rx_bad = true;
    }
    return 0;
}
