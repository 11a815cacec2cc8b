/* SPDX-License-Identifier: Apache-2.0 */
/* Generated from a layout. Do not edit: change that, and generate it again. */
/* clang-format off */

#ifndef EMULATED_INSTRUCTIONS_WIRE_H
#define EMULATED_INSTRUCTIONS_WIRE_H

#include <stdint.h>

#include "boardprof/bp_le.h"

/// emulated_instructions, version 1 ///

#define BP_EMULATED_INSTRUCTIONS_LEN 16u
#define BP_EMULATED_INSTRUCTIONS_SCHEMA 1010u
#define BP_EMULATED_INSTRUCTIONS_VERSION 1u
#define BP_EMULATED_INSTRUCTIONS_CRC 0xef22f760u

typedef struct {
    uint64_t start; /* count */
    uint64_t stop; /* count */
} bp_emulated_instructions_t;

/* Writes the struct's fields in wire order; exactly BP_EMULATED_INSTRUCTIONS_LEN bytes. */
static inline uint8_t *bp_emulated_instructions_put(uint8_t *out, const bp_emulated_instructions_t *in) {
    out = bp_put_u64(out, in->start);
    out = bp_put_u64(out, in->stop);
    return out;
}

/* Takes what the window `part` counted out of the one around it, `state`. */
static inline void bp_emulated_instructions_skip(void *state, const void *part) {
    bp_emulated_instructions_t *s = (bp_emulated_instructions_t *)state;
    const bp_emulated_instructions_t *p = (const bp_emulated_instructions_t *)part;
    s->start = (uint64_t)(s->start + (p->stop - p->start));
}

#endif
