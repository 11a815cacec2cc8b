/* SPDX-License-Identifier: Apache-2.0 */
/* Frames: 00 | COBS(version+kind, session, sequence, body, CRC-32) | 00. protocol/SPEC.md 2. */

#ifndef BOARDPROF_BP_FRAME_H
#define BOARDPROF_BP_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "boardprof/bp_config.h"
#include "boardprof/bp_wire.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether to copy long frames group by group, with the C library's memchr and memmove. */
#define BP_FRAME_FAST (__STDC_HOSTED__ && BP_CFG_MTU >= 4096)

#define BP_FRAME_HEADER 7u
#define BP_FRAME_CRC 4u

/* Frames are encoded in place. This is the number of bytes to leave free before a frame of `raw`
 * decoded bytes, for its first delimiter and the COBS codes. */
#define BP_FRAME_LEAD(raw) (1u + ((raw) + 253u) / 254u)

/* Decoded bytes of a frame with `body` bytes, and bytes of the buffer to encode it in. */
#define BP_FRAME_RAW(body) (BP_FRAME_HEADER + (body) + BP_FRAME_CRC)
#define BP_FRAME_BUFFER(body) (BP_FRAME_LEAD(BP_FRAME_RAW(body)) + BP_FRAME_RAW(body) + 1u)

/* Where the body begins in a buffer for frames of up to `raw` decoded bytes. */
#define BP_FRAME_BODY(raw) (BP_FRAME_LEAD(raw) + BP_FRAME_HEADER)

/* CRC-32 as in zlib and Ethernet. Begin with a `crc` of 0; to continue, pass the last result. */
uint32_t bp_crc32(uint32_t crc, const uint8_t *bytes, size_t length);

/* Encode in place the frame whose body of `body_length` bytes is at
 * `buffer + lead + BP_FRAME_HEADER`. Returns the encoded length, both delimiters included. */
size_t bp_frame_seal(uint8_t *buffer, size_t lead, size_t body_length, uint8_t kind,
                     uint16_t session, uint32_t sequence);

/* A frame that is being received. All zeros: nothing has been received yet. */
typedef struct {
    uint16_t length; /* decoded bytes at `frame` */
    uint8_t group;   /* COBS: bytes left of the current group */
    uint8_t code;    /* COBS: code of the current group; 0: at the start of a frame */
    bool bad;        /* too long or not COBS: skip to the next delimiter */
    uint8_t frame[BP_FRAME_MAX];
} bp_receiver_t;

/* Take one received byte. Returns the decoded length, CRC included, if the byte ends a frame. The
 * frame is in receiver->frame until the next byte. Returns 0 if no frame has ended, and -1 if the
 * byte ends something that cannot be a frame. Does not check the CRC. */
int bp_frame_take(bp_receiver_t *receiver, uint8_t byte);

/* Whether `length`, as returned by bp_frame_take, is that of a complete frame, and its CRC is
 * right. Inline, since the smallest agent has one caller. */
static inline bool bp_frame_is_sound(const uint8_t *frame, int length) {
    size_t checked = (size_t)length - BP_FRAME_CRC;
    return length >= (int)BP_FRAME_RAW(0) &&
           bp_crc32(0, frame, checked) == bp_get_u32(frame + checked);
}

#if BP_CFG_BULK
/* Take received bytes until bp_frame_take returns something other than 0. Store its result at
 * `length`. If that does not happen, take all bytes and store 0. Returns how many bytes were taken.
 */
size_t bp_frame_take_some(bp_receiver_t *receiver, const uint8_t *bytes, size_t count, int *length);
#endif

#ifdef __cplusplus
}
#endif

#endif
