/* SPDX-License-Identifier: Apache-2.0 */
/* Channels: an arena block or a stream in DATA frames. Each frame carries the offset of its first
 * byte. Never more is on the way than the receiver has given credit for. SPEC.md 4.5 and 5.5. */

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"
#include "boardprof/bp_frame.h"
#include "bp_internal.h"

#if BP_CFG_BULK

/* The most encoded bytes that the host may have on the way to the board. */
#define BP_CREDIT (BP_CFG_RX_BYTES != 0 ? BP_CFG_RX_BYTES : BP_CFG_MTU)

bp_channel_t bp_channel;

#if BP_CFG_STREAM
static uint8_t bp_ring[BP_CFG_STREAM];
#endif

static uint8_t bp_data_buffer[BP_CFG_BULK];

/// The content ///

/* The address of byte `offset`. Reduces `length` to what is contiguous there. */
static uint8_t *bp_content(uint32_t offset, uint32_t *length) {
#if BP_CFG_STREAM
    if (bp_channel.block == NULL) {
        uint32_t at = offset & (BP_CFG_STREAM - 1u);
        if (*length > BP_CFG_STREAM - at) {
            *length = BP_CFG_STREAM - at;
        }
        return bp_ring + at;
    }
#else
    (void)length;
#endif
    return bp_channel.block + offset;
}

/* Record that the next `length` bytes have arrived, here or at the host. */
static void bp_channel_pass(uint32_t length) {
    while (length != 0) {
        uint32_t piece = length;
        const uint8_t *bytes = bp_content(bp_channel.passed, &piece);
        bp_channel.crc = bp_crc32(bp_channel.crc, bytes, (size_t)piece);
        bp_channel.passed += piece;
        length -= piece;
    }
}

/// Sending ///

/* Count a frame as on the way to the host. Frames are counted in a few groups, and a group counts
 * until its last frame is acknowledged. So a group has at most a quarter of the credit; otherwise
 * waiting for its last frame would hold back too much. */
static void bp_flight_add(uint32_t offset, uint32_t bytes) {
    uint8_t last = bp_channel.flights;
    bp_flight_t *flight = &bp_channel.flight[last != 0 ? last - 1 : 0];
    bool full = last == BP_FLIGHTS;
    if (last == 0 || (!full && flight->bytes + bytes > bp_channel.credit / 4)) {
        flight = &bp_channel.flight[last];
        flight->bytes = 0;
        bp_channel.flights++;
    }
    flight->last = offset;
    flight->bytes += bytes;
    bp_channel.on_way += bytes;
}

/* Forget the groups whose frames have all been acknowledged. */
static void bp_flight_land(void) {
    uint8_t left = 0;
    for (uint8_t i = 0; i < bp_channel.flights; i++) {
        if (bp_channel.flight[i].last - bp_channel.passed <= INT32_MAX) {
            bp_channel.flight[left++] = bp_channel.flight[i];
        } else {
            bp_channel.on_way -= bp_channel.flight[i].bytes;
        }
    }
    bp_channel.flights = left;
}

/* Bytes of content that fit a DATA frame of `encoded` bytes. */
static uint32_t bp_data_room(uint32_t encoded) {
    enum { BESIDE = BP_FRAME_RAW(BP_DATA_LEN) };
    if (encoded < BP_FRAME_LEAD(BESIDE) + BESIDE + 1u) {
        return 0;
    }
    return encoded - 2u - (encoded + 252u) / 255u - BESIDE;
}

/* Bytes of content for the next frame; 0: do not send now. If little credit is left, wait for more
 * instead of sending a short frame. But if half the credit is free, send: the host may not
 * acknowledge before that. */
static uint32_t bp_data_due(void) {
    uint32_t credit = bp_channel.credit;
    uint32_t room = credit > bp_channel.on_way ? credit - bp_channel.on_way : 0;
    uint32_t left = bp_channel.end - bp_channel.next;
    uint32_t longest = bp_data_room(BP_CFG_BULK);
    uint32_t due = left < longest ? left : longest;
    uint32_t fits = bp_data_room(room < BP_CFG_BULK ? room : BP_CFG_BULK);
    return due <= fits ? due : room >= credit / 2 ? fits : 0;
}

size_t bp_channel_send(void) {
    uint32_t length = bp_channel.mode == BP_CHANNEL_SENDS ? bp_data_due() : 0;
    if (length == 0) {
        return 0;
    }
    size_t body = BP_DATA_LEN + (size_t)length;
    size_t lead = BP_FRAME_LEAD(BP_FRAME_RAW(body));
    uint8_t *out = bp_put_u32(bp_data_buffer + lead + BP_FRAME_HEADER, bp_channel.next);
    for (uint32_t done = 0; done < length;) {
        uint32_t piece = length - done;
        const uint8_t *bytes = bp_content(bp_channel.next + done, &piece);
        __builtin_memcpy(out + done, bytes, (size_t)piece);
        done += piece;
    }
    size_t encoded = bp_frame_seal(bp_data_buffer, lead, body, BP_KIND_DATA, bp_agent.session,
                                   bp_channel.opener);
    bp_port_write(bp_data_buffer, encoded);
    bp_flight_add(bp_channel.next, (uint32_t)encoded);
    bp_channel.next += length;
    if (bp_channel.next - bp_channel.passed > bp_channel.sent - bp_channel.passed) {
        bp_channel.sent = bp_channel.next;
    }
    return encoded;
}

/* Take an ACK of the host. */
static void bp_channel_heard(const uint8_t *body) {
    uint32_t gained = bp_get_u32(body) - bp_channel.passed;
    if (gained > bp_channel.sent - bp_channel.passed) {
        return; /* a late ACK, or one for bytes that were never sent */
    }
    bp_channel_pass(gained);
    bp_channel.credit = bp_get_u32(body + 4);
    /* After going back, the host may acknowledge what it received the first time. */
    bool behind = bp_channel.next - bp_channel.passed > bp_channel.sent - bp_channel.passed;
    if ((body[8] & BP_ACK_RESEND) != 0 || behind) {
        bp_channel.next = bp_channel.passed;
        bp_channel.flights = 0;
        bp_channel.on_way = 0;
    }
    bp_flight_land();
}

/// Receiving ///

static void bp_channel_ack(uint8_t flags) {
    const bp_ack_t ack = {.offset = bp_channel.passed, .credit = BP_CREDIT, .flags = flags};
    uint8_t body[BP_ACK_LEN];
    bp_ack_put(body, &ack);
    bp_send_body(BP_KIND_ACK, bp_agent.session, bp_channel.opener, body, sizeof body);
}

/* Take a DATA of the host with 1 or more bytes of content. */
static void bp_channel_store(uint32_t offset, const uint8_t *bytes, uint32_t length) {
    uint8_t flags = 0;
    if (offset > bp_channel.end || length > bp_channel.end - offset) {
        return;
    }
    if (offset == bp_channel.passed) {
        __builtin_memcpy(bp_channel.block + offset, bytes, (size_t)length);
        bp_channel_pass(length);
        bp_channel.gap = false;
    } else if (offset > bp_channel.passed) {
        if (bp_channel.gap) {
            return; /* the host has already been asked */
        }
        bp_channel.gap = true;
        flags = BP_ACK_RESEND;
    }
    bp_channel_ack(flags);
}

/// Frames from the host ///

void bp_channel_take(uint8_t kind, uint32_t opener, const uint8_t *body, size_t length) {
    if (opener != bp_channel.opener) {
        return;
    }
    if (kind == BP_KIND_ACK && bp_channel.mode == BP_CHANNEL_SENDS && length >= BP_ACK_LEN) {
        bp_channel_heard(body);
    } else if (kind == BP_KIND_DATA && bp_channel.mode == BP_CHANNEL_TAKES &&
               length > BP_DATA_LEN) {
        bp_channel_store(bp_get_u32(body), body + BP_DATA_LEN, (uint32_t)(length - BP_DATA_LEN));
    }
}

void bp_channel_begin(void) {
    if (bp_channel.mode == BP_CHANNEL_TAKES && bp_channel.opener == bp_agent.last_sequence) {
        bp_channel_ack(0);
    }
}

void bp_channel_close(uint32_t handle) {
    if (handle == BP_CHANNEL_ANY || handle == bp_channel.handle) {
        bp_channel.mode = BP_CHANNEL_CLOSED;
    }
}

/// Packed functions ///

static int bp_channel_open(bp_call_t *call, uint8_t mode, uint32_t handle, uint8_t *block,
                           uint32_t length) {
    if (bp_channel.mode != BP_CHANNEL_CLOSED) {
        return bp_fail(call, BP_ERR_NO_MEMORY, 1);
    }
    bp_channel = (bp_channel_t){.opener = bp_agent.last_sequence,
                                .handle = handle,
                                .block = block,
                                .end = length,
                                .mode = mode};
    bp_ret_nil(call);
    return call->err;
}

static int bp_channel_open_block(bp_call_t *call, uint8_t mode) {
    uint32_t handle = bp_arg_u32(call);
    uint32_t offset = bp_arg_u32(call);
    uint32_t length = bp_arg_u32(call);
    if (bp_arg_end(call) != 0) {
        return call->err;
    }
    if (length == 0) {
        return bp_fail(call, BP_ERR_ARG_RANGE, 0);
    }
    uint8_t *block = bp_arena_span(call, handle, offset, length);
    return block == NULL ? call->err : bp_channel_open(call, mode, handle, block, length);
}

int bp_channel_download(bp_call_t *call) {
    return bp_channel_open_block(call, BP_CHANNEL_SENDS);
}

int bp_channel_upload(bp_call_t *call) {
    return bp_channel_open_block(call, BP_CHANNEL_TAKES);
}

int bp_channel_finish(bp_call_t *call) {
    uint32_t opener = bp_arg_u32(call);
    if (bp_arg_end(call) != 0) {
        return call->err;
    }
    if (bp_channel.mode == BP_CHANNEL_CLOSED || bp_channel.opener != opener) {
        return bp_fail(call, BP_ERR_BAD_HANDLE, opener);
    }
    /* The host closes a download when it has everything or wants no more. Its last ACK may have
     * been lost, so count everything that was sent. */
    if (bp_channel.mode == BP_CHANNEL_SENDS && bp_channel.block != NULL) {
        bp_channel_pass(bp_channel.sent - bp_channel.passed);
    }
    bp_channel.mode = BP_CHANNEL_CLOSED;
    bp_ret_array(call, 3);
    bp_ret_uint(call, bp_channel.passed);
    bp_ret_uint(call, bp_channel.crc);
    bp_ret_uint(call, bp_channel.dropped);
    return call->err;
}

#if BP_CFG_STREAM

int bp_channel_stream(bp_call_t *call) {
    if (bp_arg_end(call) != 0) {
        return call->err;
    }
    return bp_channel_open(call, BP_CHANNEL_SENDS, BP_CHANNEL_ANY, NULL, 0);
}

bool bp_stream_is_open(void) {
    return bp_channel.mode == BP_CHANNEL_SENDS && bp_channel.block == NULL;
}

static uint32_t bp_stream_free(void) {
    return BP_CFG_STREAM - (bp_channel.end - bp_channel.passed);
}

#if BP_CFG_TRACE
uint32_t bp_stream_room(void) {
    return bp_stream_is_open() ? bp_stream_free() : 0;
}
#endif

size_t bp_stream_write(const void *record, size_t length) {
    if (!bp_stream_is_open()) {
        return 0;
    }
    if (length > bp_stream_free()) {
        bp_channel.dropped += (uint32_t)length;
        return 0;
    }
    const uint8_t *in = record;
    for (uint32_t left = (uint32_t)length, at = bp_channel.end; left != 0;) {
        uint32_t piece = left;
        uint8_t *out = bp_content(at, &piece);
        __builtin_memcpy(out, in, (size_t)piece);
        in += piece;
        at += piece;
        left -= piece;
    }
    /* A guarded function may be stopped at any instruction, so the record counts only now that it
     * is complete. */
    __asm__ volatile("" ::: "memory");
    bp_channel.end += (uint32_t)length;
    return length;
}

#endif

#endif
