/* SPDX-License-Identifier: Apache-2.0 */
/* boardprof's agent. A host sends it frames over a serial line, TCP or another byte stream. It
 * calls functions on the board for the host (packed functions), and collectors read counters around
 * them.
 *
 * An image has one agent, in static memory. It needs no heap, and of a C library only memcpy,
 * memmove, memset and memcmp. Do not call anything here from an interrupt unless its comment allows
 * it.
 *
 * See protocol/SPEC.md for the bytes on the wire, bp_port.h for what a board must define, and
 * bp_config.h for sizes and options. */

#ifndef BOARDPROF_BP_H
#define BOARDPROF_BP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "boardprof/bp_config.h"
#include "boardprof/bp_wire.h"

#ifdef __cplusplus
extern "C" {
#endif

#define BP_AGENT_VERSION "0.2.0"

/// The agent ///

/* Start the agent: forget all sessions and probe the counters of all collectors. Call it once after
 * a reset, after bp_port_init. */
void bp_init(void);

/* Handle what has arrived: take bytes from the line and answer complete frames. Never waits for
 * bytes of the host. It takes as long as the call that it runs, and as bp_port_write takes to send.
 * Do not call it from a packed function: it would overwrite the function's arguments.
 *
 * Always call it from the same task, or from the loop of main. An interrupt may call it instead if
 * nothing else does, it does not interrupt itself, and BP_CFG_GUARD and BP_CFG_SAMPLING are 0. The
 * host's calls then run in that interrupt.
 * Returns how many bytes it took from the line and sent on a channel; 0 if there was nothing to do.
 */
size_t bp_poll(void);

/* Call bp_init, then bp_poll for ever. */
__attribute__((noreturn)) void bp_serve(void);

/// Packed functions ///

/* A call in progress: a reader for its arguments and a writer for its reply. The first error is
 * kept. After it, every bp_arg_* returns 0 and every bp_ret_* does nothing. So a packed function
 * may unpack all arguments and then check `err` once. */
typedef struct {
    const uint8_t *in;
    const uint8_t *in_end;
    uint8_t *out;
    uint8_t *out_end;
    uint32_t detail;   /* sent with the error: which argument, which handle, ... */
    int err;           /* 0, or an enum bp_err */
    uint_fast8_t argc; /* arguments that are not taken yet */
} bp_call_t;

/* Returns 0, or a negative enum bp_err. */
typedef int bp_packed_t(bp_call_t *call);

/* Take the next argument. If the type is wrong, the value does not fit or the argument is missing,
 * set call->err and return 0. */
uint32_t bp_arg_u32(bp_call_t *call);
uint64_t bp_arg_u64(bp_call_t *call);
int64_t bp_arg_i64(bp_call_t *call);
/* The same, for values from `minimum` to `maximum`, both included. */
int64_t bp_arg_int(bp_call_t *call, int64_t minimum, int64_t maximum);
uint64_t bp_arg_uint(bp_call_t *call, uint64_t maximum);
bool bp_arg_bool(bp_call_t *call);
float bp_arg_f32(bp_call_t *call);
double bp_arg_f64(bp_call_t *call);
/* The bytes of an argument, in place. Stores their number at `length`. A packed function may use
 * them until it returns, but a target's `unpack` must copy them: the buffer may be overwritten
 * between rounds of a measurement. */
const uint8_t *bp_arg_bytes(bp_call_t *call, size_t *length);
/* A pointer to elements of `element_size` bytes, 1 or more. It points into an arena block, is
 * aligned to 8, and is valid until the call has ended. NULL if the host sends a null pointer.
 *
 * The host may name a second block that holds a copy. The agent restores the bytes from that copy
 * before each run of a target's function, but not for a packed function. */
void *bp_arg_span(bp_call_t *call, size_t element_size);
/* The same, and also a function of the table, or a pointer that this session was given before. */
void *bp_arg_pointer(bp_call_t *call, size_t element_size);
/* The same as bp_arg_span for a struct of `size` bytes, which is passed by value: never NULL. */
void *bp_arg_struct(bp_call_t *call, size_t size);
/* Take the next argument, bytes, as `count` arguments. Check the errors of the new call, too. */
bp_call_t bp_arg_inner(bp_call_t *call, uint_fast8_t count);
/* Check that no argument is left over. Every packed function calls it before it changes anything.
 * Returns call->err. */
int bp_arg_end(bp_call_t *call);

/* Write the reply: exactly one value, or an array followed by its items. */
void bp_ret_nil(bp_call_t *call);
void bp_ret_bool(bp_call_t *call, bool value);
void bp_ret_uint(bp_call_t *call, uint32_t value);
void bp_ret_u64(bp_call_t *call, uint64_t value);
void bp_ret_i64(bp_call_t *call, int64_t value);
void bp_ret_f32(bp_call_t *call, float value);
void bp_ret_f64(bp_call_t *call, double value);
void bp_ret_bytes(bp_call_t *call, const void *bytes, size_t length);
void bp_ret_text(bp_call_t *call, const char *rom_text); /* in BP_ROM, 0..255 bytes */
void bp_ret_array(bp_call_t *call, uint8_t items);       /* 0..15 items */

/* A pointer: a place in a block of the arena, or a token. Never an address. SPEC.md 5.9. */
void bp_ret_pointer(bp_call_t *call, const void *pointer);

/* Packed functions for the table of an image whose functions take or return such pointers. */
bp_packed_t bp_point;   /* write a pointer into a block */
bp_packed_t bp_unpoint; /* return a pointer from a block, and replace it by NULL */
bp_packed_t bp_text_at; /* return the text that a pointer points to */

/* Packed function for the table of an image whose functions take pointers to constants. */
bp_packed_t bp_arena_crc; /* return the CRC-32 of a part of a block */

/* Record an error, if it is the first one of the call. Returns the first error. */
int bp_fail(bp_call_t *call, int err, uint32_t detail);

/// Functions that can be measured ///

/* Any C function. The thunk that calls it casts it back to its own type. */
typedef void bp_fn_t(void);

/* How to call a C function with arguments from the host. Arguments are unpacked before measuring.
 * Within the window the agent only calls `thunk`, either with `fn` or, to calibrate, with an empty
 * function. */
typedef struct {
    bp_fn_t *fn;
    /* Call `fn` with the arguments in `slots`, and leave its result there. NULL: `fn` is a void
     * fn(void). */
    void (*thunk)(bp_fn_t *fn, void *slots);
    /* Unpack the arguments into `slots` (BP_CFG_SLOT_BYTES, aligned to 8). NULL: no arguments. */
    int (*unpack)(bp_call_t *call, void *slots);
    /* Write the result in `slots` as the reply. NULL: no result, reply nil. */
    void (*pack)(bp_call_t *call, const void *slots);
    /* Run before each sample, outside the window. NULL: no set-up. */
    void (*setup)(void);
    /* Run after each sample, outside the window. Returns 0 if the results are right. NULL: no
     * check. */
    int (*check)(void);
} bp_target_t;

/* A row of the board's function table: either `packed`, or a `target` that the agent calls. */
typedef struct {
    const char *name;          /* in BP_ROM, 1..255 bytes */
    const char *signature;     /* in BP_ROM, "(n: u32) -> i32"; "" if only the board knows it */
    bp_packed_t *packed;       /* NULL: call `target` */
    const bp_target_t *target; /* in BP_ROM; NULL: cannot be measured */
} bp_function_t;

/// Streams ///

#if BP_CFG_STREAM
/* Append a record to the open stream. If it does not fit, the whole record is dropped, and the host
 * learns how many bytes were dropped. Records are sent after the call, or after the current round
 * of a measurement. Measured functions should call this in their set-up; otherwise it is part of
 * the samples.
 * Returns `length`, or 0 if the record was dropped or no stream is open. */
size_t bp_stream_write(const void *record, size_t length);
#endif

/// Collectors ///

/* A counter that a collector reads, and whether it works. */
typedef struct {
    const char *name;   /* in BP_ROM; as in the layout */
    const char *source; /* in BP_ROM; the register or call it is read from, for people */
    uint32_t hz;        /* rate; 0: not a clock */
    uint32_t coarse_hz; /* rate of the layout's coarse clock; 0: there is none */
    uint32_t detail;    /* BP_COUNTER_REFUSED: the system's error number */
    uint8_t bits;       /* width; differences are modulo 2^bits */
    uint8_t status;     /* enum bp_counter_status, found by init */
    bool counts_in_sleep;
} bp_counter_t;

/* A group of counters that are read together. `start` and `stop` run inside the window, so they
 * should only read registers and store words; for counters of an operating system they make its
 * system calls. Windows nest, and each has its own state. */
typedef struct {
    const char *name; /* in BP_ROM */
    /* Enable the counters and find out which ones advance; `counter` then reports it. */
    void (*init)(void);
    void (*start)(void *state);
    void (*stop)(void *state);
    /* Write the body of the blob, `body_length` bytes, from a stopped state. */
    void (*encode)(uint8_t *out, const void *state);
    /* Describe counter `index`, 0..counters - 1. */
    void (*counter)(bp_counter_t *out, uint8_t index);
    /* Whether the counters run as `init` or `select` left them, and none has gone back within the
     * window `state` (NULL: no window). If not, restores their settings. Runs outside of windows.
     * NULL: nobody can change these counters. Unused without BP_CFG_GUARD. */
    bool (*intact)(const void *state);
#if BP_CFG_OPEN_WINDOWS
    /* Program the counters, which are called slots here. NULL: the counters are fixed. The
     * arguments are the events, one for each slot. Take all of them and call bp_arg_end before you
     * change anything. Then program these slots and switch the remaining ones off. Reply with an
     * array for each event: an enum bp_counter_status, which is OK if the slot reads back as
     * programmed, and a detail. See SPEC.md 5.3. Returns call->err. */
    int (*select)(bp_call_t *call);
    /* Reply with name and description of an event, or with nil after the last one. The event's
     * index is the only argument. NULL: the events are listed in the host's files. Needs `select`.
     */
    int (*event)(bp_call_t *call);
#endif
#if BP_CFG_INTERRUPTS > 1
    /* Subtract the counts of the nested window `part` from the window `state`. bp_wire.h has such a
     * function for each layout. NULL: interrupts stay in the counts. */
    void (*skip)(void *state, const void *part);
#endif
    uint32_t layout_crc;
    uint16_t schema_id;
    uint16_t body_length;
    uint16_t state_bytes; /* at most BP_CFG_STATE_BYTES for all active collectors */
    uint8_t version;
    uint8_t counters; /* at least 1 */
} bp_collector_t;

#if BP_CFG_OPEN_WINDOWS
enum { BP_SELECT_MOST = 8 };

/* What bp_select_slots needs from a collector whose events are numbers. */
typedef struct {
    uintptr_t largest; /* largest event number; larger ones are refused */
    void (*all_off)(void);
    /* Program `slot` with events[slot]; returns its new enum bp_counter_status. */
    uint8_t (*program)(const uintptr_t *events, uint_fast8_t slot);
    uint8_t *status;    /* of each slot: bp_select_slots stores what `program` returns */
    uint_fast8_t slots; /* 1..BP_SELECT_MOST */
} bp_select_t;

/* Implements a collector's `select`. */
int bp_select_slots(bp_call_t *call, const bp_select_t *select);
#endif

/// Interrupts ///

/* Leave an interrupt handler out of the window that it interrupts. Call bp_isr_enter first and
 * bp_isr_exit last in the handler. Handlers may nest. An exit without its entry is ignored. What
 * remains in the window is the time of entry and exit; the host measures it with an empty interrupt
 * (bp_port_interrupt). Both do nothing unless BP_CFG_INTERRUPTS is 2.
 * Context: interrupts.
 * Example: `void SysTick_Handler(void) { bp_isr_enter(); tick(); bp_isr_exit(); }` */
#if BP_CFG_INTERRUPTS > 1
void bp_isr_enter(void);
void bp_isr_exit(void);
#else
#define bp_isr_enter() ((void)0)
#define bp_isr_exit() ((void)0)
#endif

#if BP_CFG_INTERRUPTS > 1
/* How often and how long interrupts or other tasks had the core, since the start. */
typedef struct {
    uint64_t interrupts; /* not counting nested ones, and those that are a switch */
    uint64_t switches;   /* from the task that opened a window to another task */
    uint64_t ticks;      /* spent in both while a window was open */
} bp_away_t;

extern bp_away_t bp_away; /* for the collector `interrupts` */
#endif

/* Tell the agent that the operating system switches to `task`, which is any value that identifies
 * it. NULL stands for the scheduler. Until the task that opened the window runs again, other tasks
 * are left out of the window. The cost of the switch itself is not.
 * Context: the operating system's switch, in an interrupt or not.
 * Example: FreeRTOS:
 * `#define traceTASK_SWITCHED_OUT() bp_task_switched(NULL)`
 * `#define traceTASK_SWITCHED_IN() bp_task_switched(pxCurrentTCB)` */
#if BP_CFG_INTERRUPTS > 1
void bp_task_switched(const void *task);
#else
#define bp_task_switched(task) ((void)(task))
#endif

/// The table of an image ///

typedef struct {
    const char *board;                       /* in BP_ROM: the board's name */
    const bp_function_t *functions;          /* in BP_ROM */
    const bp_collector_t *const *collectors; /* in BP_ROM, of pointers into BP_ROM */
    uint16_t function_count;
    uint8_t collector_count; /* 0..8 */
    uint8_t build_id[8];
} bp_firmware_t;

/* Generated by the build (`boardprof glue`), or written by hand. */
extern const bp_firmware_t bp_firmware; /* in BP_ROM */

#ifdef __cplusplus
}
#endif

#endif
