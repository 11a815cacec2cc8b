/* SPDX-License-Identifier: Apache-2.0 */
/* Generated from a layout. Do not edit: change that, and generate it again. */
/* clang-format off */

#ifndef IBEX_WIRE_H
#define IBEX_WIRE_H

#include <stdint.h>

#include "boardprof/bp_le.h"

/// ibex_hpm, version 1 ///

#define BP_IBEX_HPM_LEN 160u
#define BP_IBEX_HPM_SCHEMA 1000u
#define BP_IBEX_HPM_VERSION 1u
#define BP_IBEX_HPM_CRC 0xfee6aa7du

typedef struct {
    uint64_t data_waits_start; /* count */
    uint64_t instruction_waits_start; /* count */
    uint64_t loads_start; /* count */
    uint64_t stores_start; /* count */
    uint64_t jumps_start; /* count */
    uint64_t branches_start; /* count */
    uint64_t branches_taken_start; /* count */
    uint64_t compressed_instructions_start; /* count */
    uint64_t multiply_waits_start; /* count */
    uint64_t divide_waits_start; /* count */
    uint64_t data_waits_stop; /* count */
    uint64_t instruction_waits_stop; /* count */
    uint64_t loads_stop; /* count */
    uint64_t stores_stop; /* count */
    uint64_t jumps_stop; /* count */
    uint64_t branches_stop; /* count */
    uint64_t branches_taken_stop; /* count */
    uint64_t compressed_instructions_stop; /* count */
    uint64_t multiply_waits_stop; /* count */
    uint64_t divide_waits_stop; /* count */
} bp_ibex_hpm_t;

/* Writes the struct's fields in wire order; exactly BP_IBEX_HPM_LEN bytes. */
static inline uint8_t *bp_ibex_hpm_put(uint8_t *out, const bp_ibex_hpm_t *in) {
    out = bp_put_u64(out, in->data_waits_start);
    out = bp_put_u64(out, in->instruction_waits_start);
    out = bp_put_u64(out, in->loads_start);
    out = bp_put_u64(out, in->stores_start);
    out = bp_put_u64(out, in->jumps_start);
    out = bp_put_u64(out, in->branches_start);
    out = bp_put_u64(out, in->branches_taken_start);
    out = bp_put_u64(out, in->compressed_instructions_start);
    out = bp_put_u64(out, in->multiply_waits_start);
    out = bp_put_u64(out, in->divide_waits_start);
    out = bp_put_u64(out, in->data_waits_stop);
    out = bp_put_u64(out, in->instruction_waits_stop);
    out = bp_put_u64(out, in->loads_stop);
    out = bp_put_u64(out, in->stores_stop);
    out = bp_put_u64(out, in->jumps_stop);
    out = bp_put_u64(out, in->branches_stop);
    out = bp_put_u64(out, in->branches_taken_stop);
    out = bp_put_u64(out, in->compressed_instructions_stop);
    out = bp_put_u64(out, in->multiply_waits_stop);
    out = bp_put_u64(out, in->divide_waits_stop);
    return out;
}

/* Takes what the window `part` counted out of the one around it, `state`. */
static inline void bp_ibex_hpm_skip(void *state, const void *part) {
    bp_ibex_hpm_t *s = (bp_ibex_hpm_t *)state;
    const bp_ibex_hpm_t *p = (const bp_ibex_hpm_t *)part;
    s->data_waits_start = (uint64_t)(s->data_waits_start + (p->data_waits_stop - p->data_waits_start));
    s->instruction_waits_start = (uint64_t)(s->instruction_waits_start + (p->instruction_waits_stop - p->instruction_waits_start));
    s->loads_start = (uint64_t)(s->loads_start + (p->loads_stop - p->loads_start));
    s->stores_start = (uint64_t)(s->stores_start + (p->stores_stop - p->stores_start));
    s->jumps_start = (uint64_t)(s->jumps_start + (p->jumps_stop - p->jumps_start));
    s->branches_start = (uint64_t)(s->branches_start + (p->branches_stop - p->branches_start));
    s->branches_taken_start = (uint64_t)(s->branches_taken_start + (p->branches_taken_stop - p->branches_taken_start));
    s->compressed_instructions_start = (uint64_t)(s->compressed_instructions_start + (p->compressed_instructions_stop - p->compressed_instructions_start));
    s->multiply_waits_start = (uint64_t)(s->multiply_waits_start + (p->multiply_waits_stop - p->multiply_waits_start));
    s->divide_waits_start = (uint64_t)(s->divide_waits_start + (p->divide_waits_stop - p->divide_waits_start));
}

/// ibex_accelerator, version 1 ///

#define BP_IBEX_ACCELERATOR_LEN 80u
#define BP_IBEX_ACCELERATOR_SCHEMA 1001u
#define BP_IBEX_ACCELERATOR_VERSION 1u
#define BP_IBEX_ACCELERATOR_CRC 0x733d9ee7u

typedef struct {
    uint64_t jobs_start; /* count */
    uint64_t busy_start; /* count */
    uint64_t read_stalls_start; /* count */
    uint64_t write_stalls_start; /* count */
    uint64_t macs_start; /* count */
    uint64_t jobs_stop; /* count */
    uint64_t busy_stop; /* count */
    uint64_t read_stalls_stop; /* count */
    uint64_t write_stalls_stop; /* count */
    uint64_t macs_stop; /* count */
} bp_ibex_accelerator_t;

/* Writes the struct's fields in wire order; exactly BP_IBEX_ACCELERATOR_LEN bytes. */
static inline uint8_t *bp_ibex_accelerator_put(uint8_t *out, const bp_ibex_accelerator_t *in) {
    out = bp_put_u64(out, in->jobs_start);
    out = bp_put_u64(out, in->busy_start);
    out = bp_put_u64(out, in->read_stalls_start);
    out = bp_put_u64(out, in->write_stalls_start);
    out = bp_put_u64(out, in->macs_start);
    out = bp_put_u64(out, in->jobs_stop);
    out = bp_put_u64(out, in->busy_stop);
    out = bp_put_u64(out, in->read_stalls_stop);
    out = bp_put_u64(out, in->write_stalls_stop);
    out = bp_put_u64(out, in->macs_stop);
    return out;
}

/* Takes what the window `part` counted out of the one around it, `state`. */
static inline void bp_ibex_accelerator_skip(void *state, const void *part) {
    bp_ibex_accelerator_t *s = (bp_ibex_accelerator_t *)state;
    const bp_ibex_accelerator_t *p = (const bp_ibex_accelerator_t *)part;
    s->jobs_start = (uint64_t)(s->jobs_start + (p->jobs_stop - p->jobs_start));
    s->busy_start = (uint64_t)(s->busy_start + (p->busy_stop - p->busy_start));
    s->read_stalls_start = (uint64_t)(s->read_stalls_start + (p->read_stalls_stop - p->read_stalls_start));
    s->write_stalls_start = (uint64_t)(s->write_stalls_start + (p->write_stalls_stop - p->write_stalls_start));
    s->macs_start = (uint64_t)(s->macs_start + (p->macs_stop - p->macs_start));
}

#endif
