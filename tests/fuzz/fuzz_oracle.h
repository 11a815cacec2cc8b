/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a RESULT is one that its CALL can have. */

#ifndef FUZZ_ORACLE_H
#define FUZZ_ORACLE_H

#include "fuzz_board.h"

/* Read an unsigned number and step behind it. Returns false when there is none. */
bool fuzz_number(const uint8_t **at, const uint8_t *end, uint32_t *value);

/* A session begins: it has no blocks and no channel. */
void fuzz_forget_blocks(void);

/* Whether `result` may answer `call`, whose body must be whole: SPEC.md 4.1, 5.4 and 5.5. Call it
 * once for each CALL that ran, in order: it keeps account of the blocks. */
bool fuzz_follows(const fuzz_piece_t *call, const fuzz_piece_t *result);

/* Whether the content of the channel that CALL `opener` opened may reach to byte `end`. */
bool fuzz_is_within_channel(uint32_t opener, uint32_t end);

#endif
