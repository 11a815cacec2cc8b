/* SPDX-License-Identifier: Apache-2.0 */
/* The agent as the fuzzers see it: bytes go in, and what comes out is held against the rules of
 * SPEC.md 2 to 4 by readers of its own, which share no code with the agent. */

#ifndef FUZZ_BOARD_H
#define FUZZ_BOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What stood between two delimiters. */
typedef struct {
    bool empty; /* or decodes to nothing: it means nothing */
    bool valid; /* COBS, 11 bytes or more, right CRC */
    uint8_t first;
    uint16_t session;
    uint32_t sequence;
    size_t raw_length;
    const uint8_t *body;
    size_t length;
} fuzz_piece_t;

/* Decode `length` encoded bytes, none of them a delimiter, into `raw`, which has as much room. */
fuzz_piece_t fuzz_decode(uint8_t *raw, const uint8_t *encoded, size_t length);

/* Encode a frame with both delimiters. Returns its length; `out` needs room for
 * length + 11 + length / 254 + 4 bytes. */
size_t fuzz_encode(uint8_t *out, uint8_t first, uint16_t session, uint32_t sequence,
                   const uint8_t *body, size_t length);

/* A new board, after power-on. */
void fuzz_boot(void);

/* Send bytes frame by frame, and hold each answer against what the session's rules say. With
 * `split` the agent polls in the middle of each frame as well. */
void fuzz_send(const uint8_t *bytes, size_t length, bool split);

/* Send bytes without a pause: only what holds of any input is checked. */
void fuzz_send_burst(const uint8_t *bytes, size_t length);

/* Look up a function by its name; the id that the board gives it, or one that no function has. */
uint32_t fuzz_function(const char *name);

/* What the board said of late, to build frames that mean something to it. */
typedef struct {
    uint16_t session;
    uint32_t nonce; /* of the HELLO that began it */
    uint32_t last_sequence;
    uint32_t numbers[4]; /* the last RESULTs that were a number: handles, windows */
    uint32_t data_end;   /* behind the last DATA */
    uint32_t wanted;     /* offset of the last ACK */
} fuzz_heard_t;

extern fuzz_heard_t fuzz_heard;

#endif
