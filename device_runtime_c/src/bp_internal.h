/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the agent's source files; not for users of the agent. */

#ifndef BOARDPROF_BP_INTERNAL_H
#define BOARDPROF_BP_INTERNAL_H

#include "boardprof/bp.h"
#include "boardprof/bp_frame.h"
#include "boardprof/bp_port.h"

#if BP_CFG_BASEPRI != 0 && (!defined(__ARM_ARCH_ISA_THUMB) || __ARM_ARCH_ISA_THUMB != 2)
#error "BP_CFG_BASEPRI needs an ARMv7-M or ARMv8-M mainline core: others have no BASEPRI"
#endif

/// The line ///

#if BP_CFG_RTT
/* As bp_port_read and bp_port_write, whose names stand for them in the agent: a port may still
 * define its own, which nothing calls. In bp_rtt.c. */
size_t bp_rtt_read(uint8_t *buffer, size_t capacity);
void bp_rtt_write(const uint8_t *buffer, size_t length);
#define bp_port_read bp_rtt_read
#define bp_port_write bp_rtt_write
#endif

/* A word of memory of any type (GCC manual, "Common Type Attributes": may_alias). */
typedef uintptr_t __attribute__((may_alias)) bp_word_t;

/// The agent's state ///

/* One per image: the functions that it measures have only one set of static data, too. */
extern struct bp_agent {
#if BP_CFG_GUARD
    bp_fault_t fault;  /* what ended the call that runs */
    uint32_t guard_ms; /* longest time of a guarded call, 0: no limit */
#endif
    uint32_t boot_id; /* 0: there was no HELLO yet */
    uint32_t dictionary_hash;
    uint32_t last_sequence; /* of the last call that was taken */
    uint32_t nonce;         /* of the HELLO that began the session */
    uint16_t session;       /* 0: no session */
    uint16_t reply_length;  /* bytes of the cached reply in `tx`; 0: no reply */
#if BP_CFG_CLOCK
    uint64_t received; /* bp_port_ticks when the last frame was complete */
#endif
#if BP_CFG_BULK
    const uint8_t *in_next; /* taken from the line but not decoded yet: up to `in_end` */
    const uint8_t *in_end;
    int kept; /* length of the HELLO in `receiver` that ended a measurement; 0: no such HELLO */
    uint8_t in[BP_CHUNK];
#endif
    bp_receiver_t receiver;
    uint8_t tx[BP_CFG_MTU]; /* the last reply, encoded, to be sent again to a duplicate */
} bp_agent;

/// msgpack's first bytes ///

enum bp_tag {
    BP_TAG_FIXARRAY = 0x90, /* .. 0x9f */
    BP_TAG_NIL = 0xc0,
    BP_TAG_NEVER = 0xc1, /* unused in msgpack: "no tag" */
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

/* Take the head of an array; returns how many arguments follow. */
uint8_t bp_arg_array(bp_call_t *call);

/* Reserve `length` bytes of the reply, as msgpack bin; NULL if they do not fit. */
uint8_t *bp_ret_bin(bp_call_t *call, size_t length);

#if BP_CFG_OPEN_WINDOWS
/* Return two texts in BP_ROM as one text. */
void bp_ret_joined(bp_call_t *call, const char *first, const char *second);
#endif

extern const char bp_rom_empty[1]; /* "", in BP_ROM */

/// The registry ///

/* The function with this id, in BP_ROM; NULL if there is none. */
const bp_function_t *bp_function_at(uint32_t id);

/* The collector with this index, in BP_ROM; NULL if there is none. */
const bp_collector_t *bp_collector_at(uint32_t index);

/* CRC over all entries as they would be sent, with the nil that ends each section. Overwrites
 * bp_agent.tx, the cached reply. */
uint32_t bp_dictionary_hash(void);

/* Call packed function `id` with the arguments that are left. */
int bp_invoke(bp_call_t *call, uint32_t id);

/// Targets ///

/* Arguments and result of one call, aligned for every type of a signature (SPEC.md 5.1). */
typedef union {
    uint64_t align;
    uint8_t bytes[BP_CFG_SLOT_BYTES];
} bp_slots_t;

/* The target of function `id`, in BP_ROM. NULL if it has none; then the call has failed.
 * Inline, since the smallest agent has one caller. */
static inline const bp_target_t *bp_target_of(bp_call_t *call, uint32_t id) {
    const bp_function_t *function = bp_function_at(id);
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

/* Copy a target from BP_ROM, set the thunk of a `void fn(void)`, and unpack all arguments. Returns
 * call->err. */
int bp_target_open(bp_call_t *call, const bp_target_t *rom, bp_target_t *out, bp_slots_t *slots);

/* Call a target once: unpack, restore spans, set up, call, check, pack. Returns call->err. */
int bp_call_target(bp_call_t *call, const bp_target_t *target);

/* Write the result that a target has left in its slots, or nil. */
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

/* A collector that takes part in a measurement, and the offset of its state in bp_state_t. */
typedef struct {
    const bp_collector_t *collector;
    size_t offset;
} bp_member_t;

/* The collectors of a measurement: `member` up to `end`. */
typedef struct {
    bp_member_t member[BP_CFG_ACTIVE_COLLECTORS];
    bp_member_t *end;
    size_t blob_length; /* of all collectors together */
} bp_active_t;

#if BP_CFG_INTERRUPTS > 1

extern const bp_collector_t bp_collector_interrupts; /* in BP_ROM */

/* Call these four before the collectors start, after that, before they stop, and after that.
 * Interrupts run only between bp_watch_run and bp_watch_hold, so that each one is counted by all
 * collectors or by none. If the collector `interrupts` is active, their counts are subtracted from
 * `state`. */
uintptr_t bp_watch_begin(const bp_active_t *active, bp_state_t *state);
void bp_watch_run(uintptr_t before);
void bp_watch_hold(void);
void bp_watch_end(uintptr_t before);

/* A fault or timeout has ended the window, and its state no longer exists. */
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

/* Send PROGRESS, to show that a long call is alive. Never call it inside a measured window. */
void bp_progress(uint32_t done, uint32_t total);

#if BP_CFG_SAMPLING
/* The same at most eight times per second of the board's clock. `last` is 0 before the first one.
 */
void bp_progress_at_times(uint32_t *last, uint32_t done, uint32_t total);
#endif

/// Guarded calls ///

#if BP_CFG_GUARD
bp_packed_t bp_guard;

/* Run body(context), which calls the user's code. Returns whether it returned; if not, the call has
 * failed. Guarded calls do not nest. */
bool bp_guarded(bp_call_t *call, void (*body)(void *context), void *context);

/* Run a packed function of the board, guarded in the same way. Returns call->err. */
int bp_guarded_packed(bp_call_t *call, bp_packed_t *packed);

/* Write the body of an ERROR, with address and cause of the fault if there was one. */
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
/* Free all blocks: a new session begins. */
void bp_arena_reset(void);
#if BP_CFG_SAMPLING
/* Bytes of a block; 0 if there is no such block: then the call has failed. */
uint32_t bp_arena_size(bp_call_t *call, uint32_t handle);
#endif
/* The bytes at `offset` of a block. NULL if they are not all in it; then the call has failed. */
uint8_t *bp_arena_span(bp_call_t *call, uint32_t handle, uint32_t offset, uint32_t length);

/* Store the block that a pointer points into, and where. Returns whether there is such a block. */
bool bp_arena_find(const void *pointer, bp_place_t *place);

/* Restore the spans of this call from their copies (bp_arg_span), or forget the copies. */
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

#if BP_CFG_HEAP
bp_packed_t bp_heap;

/* Around each round of a measurement of `function`; `measured`: it was a sample. */
void bp_heap_round_begin(void (*function)(void));
void bp_heap_round_end(bool measured);
#else
static inline void bp_heap_round_begin(void (*function)(void)) {
    (void)function;
}
static inline void bp_heap_round_end(bool measured) {
    (void)measured;
}
#endif

#if BP_CFG_CLOCK
bp_packed_t bp_clock;
#endif

#if BP_CFG_INTERRUPTS
bp_packed_t bp_interrupts;
/* Note which interrupts are enabled, right before a measured window. */
void bp_see_interrupts(void);
#endif

#if BP_CFG_SAMPLING
bp_packed_t bp_sampling;
bp_packed_t bp_sample;
#endif

#if BP_CFG_BULK
bp_packed_t bp_channel_download;
bp_packed_t bp_channel_upload;
bp_packed_t bp_channel_finish;
#if BP_CFG_STREAM
bp_packed_t bp_channel_stream;
bool bp_stream_is_open(void);
#endif
#endif

#if BP_CFG_OPEN_WINDOWS
/* Run a collector's init, start, stop, select or event (`operation` 0..4) for the host. */
int bp_window_call(bp_call_t *call, const bp_collector_t *collector, uint8_t operation);
/* Close the open windows of a collector; NULL: of all. */
void bp_window_forget(const bp_collector_t *collector);
#endif

/// Probes ///

#if BP_CFG_TRACE

#include "boardprof/bp_trace.h"
#include "bp_arch.h"

#define BP_TRACE_WORDS (BP_CFG_TRACE / 4u)

/* Each core counts on its own clock, and SYNC relates them. */
#define BP_TRACE_OWN_CLOCKS \
    (BP_CFG_TRACE_CORES > 1 && (BP_CFG_TRACE_CLOCK == 0 || BP_CFG_TRACE_CLOCK == 2))

/* Survives a reset. */
#if defined(__linux__)
#define BP_TRACE_KEPT
#else
#define BP_TRACE_KEPT __attribute__((section(".noinit")))
#endif

/* The ring of one core. It is written by probes of that core alone. */
typedef struct {
    uint32_t *begin;
    uint32_t *at;         /* the next record begins here */
    uint32_t *end;        /* the longest record fits before it; `begin`: no record fits */
    uint32_t *read;       /* the host has everything before it */
    uint32_t *lap_end;    /* if `at` is before `read`, the reader goes on at `begin` after it */
    bp_trace_time_t last; /* clock of the last record */
    uint32_t before;      /* words before `begin` in the reader's lap */
    uint32_t dropped;     /* events, since the start */
    uint32_t pending;     /* those that no record tells of yet */
    uint32_t check;       /* of a ring that is overwritten: of its records, and where it stands */
    uint32_t told;        /* clock when the host got its last block */
#if BP_TRACE_OWN_CLOCKS
    uint32_t synced; /* clock of the last SYNC */
#endif
    uint8_t build_id[8];
    uint8_t mode; /* enum bp_trace_mode */
    bool ended;   /* the host has stopped, and an empty block must tell it so */
} bp_trace_ring_t;

extern bp_trace_ring_t bp_trace_ring[BP_CFG_TRACE_CORES];
#if BP_CFG_TRACE_AT
#define bp_trace_words ((uint32_t (*)[BP_TRACE_WORDS])(uintptr_t)BP_CFG_TRACE_AT)
#else
extern uint32_t bp_trace_words[BP_CFG_TRACE_CORES][BP_TRACE_WORDS];
#endif

/* The slots in use: return the first, or NULL, and store the last. */
bp_slot_t *bp_slots_now(bp_slot_t **last);

/* The agent's lock; that of probes may be refused where there are threads. */
#ifdef BP_ARCH_HAS_THREADS
void bp_trace_count_refused(void); /* adds events that found the lock taken to those dropped */
void bp_trace_forget_refused(void);
#else
#define bp_arch_lock_always bp_arch_lock
#endif

bp_trace_time_t bp_trace_time(void);
static inline uint32_t bp_trace_now(void) {
    return (uint32_t)bp_trace_time();
}
#define BP_TRACE_WHAT ((uint32_t)BP_TRACE_EVENTS | (uint32_t)BP_TRACE_STATISTICS)
/* End to record one thing and begin another. The first event may say what memory is live. */
void bp_trace_switch(uint32_t off, uint32_t on);
uint32_t bp_trace_mix(uint32_t word, uint32_t value);
uint32_t bp_trace_place(const bp_trace_ring_t *ring);

/* Clear all slots, or else leave out passes that are about to be too long for a clock of 32 bits.
 * The latter is due every 2^29 ticks. */
void bp_slots_update(bool clears);

/* Move records from the rings to the stream, as far as there is room. */
void bp_trace_drain(void);

/* Bytes that fit the open stream; 0 if there is no stream. */
uint32_t bp_stream_room(void);

bp_packed_t bp_trace;
bp_packed_t bp_trace_start;
bp_packed_t bp_trace_stop;
bp_packed_t bp_trace_slots;
bp_packed_t bp_trace_kept;
bp_packed_t bp_trace_read;
bp_packed_t bp_trace_calibrate;

#if BP_CFG_TASKS
bp_packed_t bp_trace_tasks;

/* Record the task that runs, if it is known. */
void bp_trace_task(void);
#endif

#endif

/// Channels ///

#if BP_CFG_BULK

enum { BP_FLIGHTS = 8 };

/* Not the handle of a block: means all channels, or a stream. */
#define BP_CHANNEL_ANY UINT32_MAX

enum bp_channel_mode { BP_CHANNEL_CLOSED, BP_CHANNEL_SENDS, BP_CHANNEL_TAKES };

/* A group of frames on the way to the host. */
typedef struct {
    uint32_t last;  /* offset at which the last of them begins */
    uint32_t bytes; /* encoded */
} bp_flight_t;

/* The channel that is open. Offsets are modulo 2^32: passed <= next <= sent <= end. */
typedef struct {
    uint8_t *block;   /* its first byte; NULL: a stream */
    uint32_t handle;  /* of the block */
    uint32_t opener;  /* sequence number of the CALL that opened it */
    uint32_t passed;  /* the receiver has everything before this offset */
    uint32_t next;    /* offset to be sent next */
    uint32_t sent;    /* everything before this offset was sent at least once */
    uint32_t end;     /* of the block, or of what was written to the stream */
    uint32_t crc;     /* of everything before `passed` */
    uint32_t dropped; /* bytes of records that did not fit */
    uint32_t credit;  /* most encoded bytes on the way to the host */
    uint32_t on_way;  /* encoded bytes on the way to the host */
    bp_flight_t flight[BP_FLIGHTS];
    uint8_t flights;
    uint8_t mode; /* enum bp_channel_mode */
    bool gap;     /* something is missing, and the host was asked to resend */
} bp_channel_t;

extern bp_channel_t bp_channel;

/* Take a DATA or ACK frame of this session. */
void bp_channel_take(uint8_t kind, uint32_t opener, const uint8_t *body, size_t length);

/* Send a frame if one is due; returns its encoded length, or 0. */
size_t bp_channel_send(void);

/* Call it after the last CALL was answered, also when its reply was sent again. If that CALL opened
 * an upload, this asks the host for data. */
void bp_channel_begin(void);

/* Close the channel if it carries this block. BP_CHANNEL_ANY: close it in any case. */
void bp_channel_close(uint32_t handle);

/* Send a frame with a body of up to 16 bytes. */
void bp_send_body(uint8_t kind, uint16_t session, uint32_t sequence, const uint8_t *body,
                  size_t length);

/* Take what has arrived between two rounds of a measurement. Returns whether the host has cancelled
 * it or begun another session. */
bool bp_broken_off(void);

#endif

#endif
