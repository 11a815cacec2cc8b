/* SPDX-License-Identifier: Apache-2.0 */
/* Frames: 00 | COBS(version+kind, session, sequence, body, CRC-32) | 00. protocol/SPEC.md 2. */

#ifndef BOARDPROF_BP_FRAME_H
#define BOARDPROF_BP_FRAME_H

#include "boardprof/bp.h"

/* Long frames group by group, by the C library's functions where there is one. */
#define BP_FRAME_FAST (__STDC_HOSTED__ && BP_CFG_MTU >= 4096)

#define BP_FRAME_HEADER 7u
#define BP_FRAME_CRC 4u

/* Bytes that a frame of `raw` decoded bytes needs in front for its delimiter and COBS codes. */
#define BP_FRAME_LEAD(raw) (1u + ((raw) + 253u) / 254u)

/* Bytes of a buffer for a frame with `body` bytes. */
#define BP_FRAME_RAW(body) (BP_FRAME_HEADER + (body) + BP_FRAME_CRC)
#define BP_FRAME_BUFFER(body) (BP_FRAME_LEAD(BP_FRAME_RAW(body)) + BP_FRAME_RAW(body) + 1u)

/* Where the body begins in a buffer for frames of up to `raw` decoded bytes. */
#define BP_FRAME_BODY(raw) (BP_FRAME_LEAD(raw) + BP_FRAME_HEADER)

/* CRC-32 as zlib and Ethernet have it. Begin with `crc` 0; feed the result back to go on. */
uint32_t bp_crc32(uint32_t crc, const uint8_t *bytes, size_t length);

/* Encode the frame whose body of `body_length` bytes stands at `buffer + lead + BP_FRAME_HEADER`,
 * in place. Returns the encoded length from `buffer`, both delimiters included. */
size_t bp_frame_seal(uint8_t *buffer, size_t lead, size_t body_length, uint8_t kind,
                     uint16_t session, uint32_t sequence);

/* Take one received byte. Returns the decoded length, CRC included, when it ends a frame that
 * stands in agent->rx; 0 when there is none yet; -1 when it ends something that cannot be a frame.
 */
int bp_frame_take(bp_agent_t *agent, uint8_t byte);

#if BP_CFG_BULK
/* Take of `count` bytes those up to the first that ends something, which bp_frame_take tells in
 * `length`; all of them and 0 if none does. Returns how many were taken. */
size_t bp_frame_take_some(bp_agent_t *agent, const uint8_t *bytes, size_t count, int *length);
#endif

#endif
