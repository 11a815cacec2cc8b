/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent's own files share and its users need not see. */

#ifndef BOARDPROF_BP_INTERNAL_H
#define BOARDPROF_BP_INTERNAL_H

#include "boardprof/bp.h"

/* A word of memory that may belong to any type. */
typedef uintptr_t __attribute__((may_alias)) bp_word_t;

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

/* The target of function `id`, in BP_ROM; NULL when it cannot be measured: the call has failed.
 * Inline, since the smallest agent has one caller. */
static inline const bp_target_t *bp_target_of(bp_call_t *call, uint32_t id) {
    const bp_function_t *function = bp_function_at(call->agent, id);
    if (function == NULL) {
        bp_fail(call, BP_ERR_NO_FUNCTION, id);
        return NULL;
    }
    const bp_target_t *target = BP_ROM_GET(function->target);
    if (target == NULL) {
        bp_fail(call, BP_ERR_NOT_MEASURABLE, id);
    }
    return target;
}

/* Read a target from BP_ROM, fill in the thunk of void fn(void), unpack the arguments and see that
 * none is left over. Returns call->err. */
int bp_target_open(bp_call_t *call, const bp_target_t *rom, bp_target_t *out, bp_slots_t *slots);

/* Unpack, put back, set up, call once, check, pack. */
int bp_call_target(bp_call_t *call, const bp_target_t *target);

/* Return what a target has left in its slots, or nil. */
static inline void bp_pack_result(bp_call_t *call, const bp_target_t *target, bp_slots_t *slots) {
    if (target->pack != NULL) {
        target->pack(call, slots);
    } else {
        bp_ret_nil(call);
    }
}

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

/// Windows ///

/* A collector of a measurement, and where it keeps its state within a window. */
typedef struct {
    const bp_collector_t *collector;
    size_t offset;
} bp_member_t;

/* All of them: those from `member` up to `end`. */
typedef struct {
    bp_member_t member[BP_CFG_ACTIVE_COLLECTORS];
    bp_member_t *end;
    size_t blob_length; /* of all collectors together */
} bp_active_t;

#if BP_CFG_INTERRUPTS > 1

extern const bp_collector_t bp_collector_interrupts; /* in BP_ROM */

/* In turn: before the collectors start, behind that, before they stop, behind that. Interrupts run
 * between the second and the third alone, so that each is in the windows of all collectors or of
 * none. What they count goes out of `state`, if the collector `interrupts` is among them. */
uintptr_t bp_watch_begin(const bp_active_t *active, bp_state_t *state);
void bp_watch_run(uintptr_t before);
void bp_watch_hold(void);
void bp_watch_end(uintptr_t before);

/* The window has ended elsewhere: its state is gone. */
void bp_watch_forget(void);

void bp_start_all(const bp_active_t *active, bp_state_t *state);
void bp_stop_all(const bp_active_t *active, bp_state_t *state);

#else
static inline uintptr_t bp_watch_begin(const bp_active_t *active, bp_state_t *state) {
    (void)active, (void)state;
    return 0;
}
static inline void bp_watch_run(uintptr_t before) {
    (void)before;
}
static inline void bp_watch_hold(void) {
}
static inline void bp_watch_end(uintptr_t before) {
    (void)before;
}
static inline void bp_watch_forget(void) {
}
#endif

/// Built-in packed functions ///

bp_packed_t bp_describe;
bp_packed_t bp_measure;

/* Say that a long call is alive: a PROGRESS frame. Never call it inside a measured window. */
void bp_progress(const bp_agent_t *agent, uint32_t done, uint32_t total);

/// Guarded calls ///

#if BP_CFG_GUARD
bp_packed_t bp_guard;

/* Run body(context), which calls what the board brings. Returns whether it came to its end; if not,
 * the call has failed. Guarded calls do not nest. */
bool bp_guarded(bp_call_t *call, void (*body)(void *context), void *context);

/* The same with a packed function of the board; returns what it returned, or call->err. */
int bp_guarded_packed(bp_call_t *call, bp_packed_t *packed);

/* Write the body of an ERROR, with the agent's fault if there was one. */
void bp_ret_error(bp_call_t *call, uint8_t code, uint32_t detail);
#else
static inline bool bp_guarded(bp_call_t *call, void (*body)(void *context), void *context) {
    (void)call;
    body(context);
    return true;
}
#endif

#if BP_CFG_ARENA
bp_packed_t bp_arena_alloc;
bp_packed_t bp_arena_free;
bp_packed_t bp_arena_read;
bp_packed_t bp_arena_write;
/* A new session begins: forget all blocks. */
void bp_arena_reset(void);
/* The bytes that (handle, offset, length) names, or NULL. */
uint8_t *bp_arena_span(bp_call_t *call, uint32_t handle, uint32_t offset, uint32_t length);

/* What bp_arg_span has noted of this call: put all of it back, or forget it. */
void bp_spans_put_back(void);
void bp_spans_forget(void);
#else
static inline void bp_spans_put_back(void) {
}
static inline void bp_spans_forget(void) {
}
#endif

#if BP_CFG_STACK
bp_packed_t bp_stack;
#endif

#if BP_CFG_CLOCK
bp_packed_t bp_clock;
#endif

#if BP_CFG_INTERRUPTS
bp_packed_t bp_interrupts;
#endif

#if BP_CFG_BULK
bp_packed_t bp_channel_download;
bp_packed_t bp_channel_upload;
bp_packed_t bp_channel_finish;
#if BP_CFG_STREAM
bp_packed_t bp_channel_stream;
#endif
#endif

#if BP_CFG_OPEN_WINDOWS
/* A collector's init, start, stop, select or event (0..4), called by the host. */
int bp_window_call(bp_call_t *call, const bp_collector_t *collector, uint8_t operation);
/* Forget the open windows of a collector; NULL: all. */
void bp_window_forget(const bp_collector_t *collector);
#endif

/// Channels ///

#if BP_CFG_BULK

enum { BP_FLIGHTS = 8 };

/* No block's handle: that of all, or of a stream. */
#define BP_CHANNEL_ANY UINT32_MAX

enum bp_channel_mode { BP_CHANNEL_CLOSED, BP_CHANNEL_SENDS, BP_CHANNEL_TAKES };

/* Frames that are on the way to the host. */
typedef struct {
    uint32_t last;  /* offset at which the last of them begins */
    uint32_t bytes; /* as they stand on the line */
} bp_flight_t;

/* The channel that is open. Offsets are modulo 2^32: passed <= next <= sent <= end. */
typedef struct {
    uint8_t *block;   /* its first byte; NULL: a stream */
    uint32_t handle;  /* the block's */
    uint32_t opener;  /* sequence number of its CALL */
    uint32_t passed;  /* the receiver has all before it */
    uint32_t next;    /* to be sent next */
    uint32_t sent;    /* all before it was sent at least once */
    uint32_t end;     /* of the block, or of what was written to the stream */
    uint32_t crc;     /* over what has passed */
    uint32_t dropped; /* bytes of records that found no room */
    uint32_t credit;  /* bytes that may be on the way to the host */
    uint32_t on_way;  /* those that are */
    bp_flight_t flight[BP_FLIGHTS];
    uint8_t flights;
    uint8_t mode; /* enum bp_channel_mode */
    bool gap;     /* something is missing, and the host was told */
} bp_channel_t;

extern bp_channel_t bp_channel;

/* A DATA or ACK frame of this session. */
void bp_channel_take(const bp_agent_t *agent, uint8_t kind, uint32_t opener, const uint8_t *body,
                     size_t length);

/* Send a frame if one is due; returns its bytes. */
size_t bp_channel_send(const bp_agent_t *agent);

/* The last CALL has been answered, perhaps again: if it opened a channel that takes, ask for data.
 */
void bp_channel_begin(const bp_agent_t *agent);

/* Close the channel if it carries this block, or BP_CHANNEL_ANY. */
void bp_channel_close(uint32_t handle);

/* Send a frame with a body of up to 16 bytes. */
void bp_send_body(uint8_t kind, uint16_t session, uint32_t sequence, const uint8_t *body,
                  size_t length);

/* Take what has arrived between two rounds of a measurement. Returns whether the host has broken it
 * off: the call ends with BP_ERR_CANCELLED then. */
bool bp_broken_off(bp_agent_t *agent);

#endif

#endif
