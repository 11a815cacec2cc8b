/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent's own files share and its users need not see. */

#ifndef BOARDPROF_BP_INTERNAL_H
#define BOARDPROF_BP_INTERNAL_H

#include "boardprof/bp.h"

/// msgpack's first bytes ///

enum bp_tag {
    BP_TAG_FIXARRAY = 0x90, /* .. 0x9f */
    BP_TAG_NIL = 0xc0,
    BP_TAG_NEVER = 0xc1, /* msgpack never uses it: "no tag" */
    BP_TAG_FALSE = 0xc2,
    BP_TAG_TRUE = 0xc3,
    BP_TAG_BIN8 = 0xc4,
    BP_TAG_BIN16 = 0xc5,
    BP_TAG_FLOAT32 = 0xca,
    BP_TAG_FLOAT64 = 0xcb,
    BP_TAG_UINT8 = 0xcc, /* then 16, 32 */
    BP_TAG_UINT32 = 0xce,
    BP_TAG_UINT64 = 0xcf,
    BP_TAG_INT8 = 0xd0,
    BP_TAG_INT16 = 0xd1,
    BP_TAG_INT32 = 0xd2,
    BP_TAG_INT64 = 0xd3,
    BP_TAG_STR8 = 0xd9,
    BP_TAG_NEGATIVE = 0xe0, /* .. 0xff: -32 .. -1 */
};

/* The head of an array: its items become the call's arguments. */
uint8_t bp_arg_array(bp_call_t *call);

/* `length` bytes of the reply to be filled in, as msgpack bin; NULL when they do not fit. */
uint8_t *bp_ret_bin(bp_call_t *call, size_t length);

#if BP_CFG_OPEN_WINDOWS
/* Two texts in BP_ROM as one. */
void bp_ret_joined(bp_call_t *call, const char *first, const char *second);
#endif

extern const char bp_rom_empty[1]; /* "", in BP_ROM */

/// The registry ///

/* Look up a packed function by its id; in BP_ROM, NULL when there is none. */
const bp_function_t *bp_function_at(const bp_agent_t *agent, uint32_t id);

/* Look up a collector; NULL when there is none. */
const bp_collector_t *bp_collector_at(const bp_agent_t *agent, uint32_t index);

/* CRC over all entries as they would be sent, the nil that ends each section included. Writes them
 * to agent->tx: a cached reply is lost. */
uint32_t bp_dictionary_hash(bp_agent_t *agent);

/* Call packed function `id` with the arguments that are left. */
int bp_invoke(bp_call_t *call, uint32_t id);

/// Targets ///

/* Arguments and result of one call, aligned for every type of a signature (SPEC.md 5.1). */
typedef union {
    uint64_t align;
    uint8_t bytes[BP_CFG_SLOT_BYTES];
} bp_slots_t;

/* Read a target from BP_ROM, fill in the thunk of void fn(void), unpack the arguments and see that
 * none is left over. Returns call->err. */
int bp_target_open(bp_call_t *call, const bp_target_t *rom, bp_target_t *out, bp_slots_t *slots);

/* Unpack, set up, call once, check, pack. */
int bp_call_target(bp_call_t *call, const bp_target_t *target);

/// Blobs ///

/* Bytes of a collector's blob: header, body, CRC. */
size_t bp_blob_length(const bp_collector_t *collector);

/* Write the blob of a stopped window; returns the first byte after it. */
uint8_t *bp_blob_put(uint8_t *out, const bp_collector_t *collector, const void *state);

/* Aligned for every counter. */
typedef union {
    uint64_t align;
    uint8_t bytes[BP_CFG_STATE_BYTES];
} bp_state_t;

/// Built-in packed functions ///

bp_packed_t bp_describe;
bp_packed_t bp_measure;

/* Say that a long call is alive: a PROGRESS frame. Never call it inside a measured window. */
void bp_progress(const bp_agent_t *agent, uint32_t done, uint32_t total);

#if BP_CFG_ARENA
bp_packed_t bp_arena_alloc;
bp_packed_t bp_arena_free;
bp_packed_t bp_arena_read;
bp_packed_t bp_arena_write;
/* A new session begins: forget all blocks. */
void bp_arena_reset(void);
#endif

#if BP_CFG_OPEN_WINDOWS
/* A collector's init, start or stop (0..2), called by the host. */
int bp_window_call(bp_call_t *call, const bp_collector_t *collector, uint8_t operation);
/* Forget the open windows of a collector; NULL: all. */
void bp_window_forget(const bp_collector_t *collector);
#endif

#endif
