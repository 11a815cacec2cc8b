/* SPDX-License-Identifier: Apache-2.0 */
/* Frames as the doorman reads and writes them. */

#ifndef BP_DOORMAN_FRAME_H
#define BP_DOORMAN_FRAME_H

#include <stddef.h>
#include <stdint.h>

/* Send a frame to `fd` without waiting. Its body is `owner`, 32 bytes; NULL: it has none. */
void bp_doorman_say(int fd, uint8_t kind, uint16_t session, uint32_t sequence,
                    const uint8_t *owner);

/* Decode `length` bytes from between two delimiters. Returns the length of the frame with its CRC,
 * and stores its address, valid until the next call, at `frame`. 0: there was none; -1: damaged. */
int bp_doorman_decode(const uint8_t *raw, size_t length, const uint8_t **frame);

#endif
