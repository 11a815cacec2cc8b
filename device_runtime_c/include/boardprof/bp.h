/* SPDX-License-Identifier: Apache-2.0 */
/* boardprof's agent: packed functions over a framed line, and collectors that read counters.
 *
 * All memory is the caller's or static; no heap, no libc beyond four mem functions. Nothing here is
 * safe to call from an interrupt but what says so. protocol/SPEC.md describes the bytes; bp_port.h
 * what a board owes; bp_config.h the sizes. */

#ifndef BOARDPROF_BP_H
#define BOARDPROF_BP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "boardprof/bp_config.h"
#include "boardprof/bp_wire.h"

#define BP_AGENT_VERSION "0.1.0"

typedef struct bp_agent bp_agent_t;

/// Packed functions ///

/* One call in progress: a reader on its arguments and a writer on its reply. The first error wins
 * and makes every later bp_arg_* return 0 and every later bp_ret_* do nothing, so that a packed
 * function may unpack everything and look at `err` once. */
typedef struct {
    bp_agent_t *agent;
    const uint8_t *in;
    const uint8_t *in_end;
    uint8_t *out;
    uint8_t *out_end;
    uint32_t detail;   /* sent with the error: which argument, which handle, ... */
    int err;           /* 0, or an enum bp_err */
    uint_fast8_t argc; /* arguments not yet taken */
} bp_call_t;

/* Returns 0, or a negative enum bp_err. */
typedef int bp_packed_t(bp_call_t *call);

/* Take the next argument. A wrong type, a value that does not fit or a missing argument sets
 * call->err and returns 0. */
uint32_t bp_arg_u32(bp_call_t *call);
uint64_t bp_arg_u64(bp_call_t *call);
int64_t bp_arg_i64(bp_call_t *call);
/* The same, within `minimum`..`maximum`, both included. */
int64_t bp_arg_int(bp_call_t *call, int64_t minimum, int64_t maximum);
uint64_t bp_arg_uint(bp_call_t *call, uint64_t maximum);
bool bp_arg_bool(bp_call_t *call);
float bp_arg_f32(bp_call_t *call);
double bp_arg_f64(bp_call_t *call);
/* Bytes in place, valid until the call returns; those of a function that is measured only within
 * its `unpack`, since other frames come in between rounds. Stores their number at `length`. */
const uint8_t *bp_arg_bytes(bp_call_t *call, size_t *length);
/* A pointer to elements of so many bytes, 1 or more: bytes of an arena block, aligned to 8, which
 * stay there until the call has ended; or NULL, which a host may send, too. If the host has named a
 * copy of them, it is put back whenever the function of a target is about to run; a packed function
 * of the board's own finds the bytes as they are. */
void *bp_arg_span(bp_call_t *call, size_t element_size);
/* No argument may be left over: every packed function calls it before it changes anything.
 * Returns call->err. */
int bp_arg_end(bp_call_t *call);

/* Write the reply: exactly one value, or an array and then its items. */
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

/* Notes the first error of a call; returns it. */
int bp_fail(bp_call_t *call, int err, uint32_t detail);

/// Functions that can be measured ///

/* Any C function; cast back to its own type by the thunk that calls it. */
typedef void bp_fn_t(void);

/* How to call a C function from a packed one. The measuring loop unpacks first and then calls
 * `thunk` alone inside the window, with `fn` or with the empty function. */
typedef struct {
    bp_fn_t *fn;
    /* Call `fn` with the arguments in `slots`; leave its result there. NULL: void fn(void). */
    void (*thunk)(bp_fn_t *fn, void *slots);
    /* Unpack the arguments into `slots` (BP_CFG_SLOT_BYTES, aligned to 8). NULL: none. */
    int (*unpack)(bp_call_t *call, void *slots);
    /* Write the result in `slots` as the reply. NULL: nil. */
    void (*pack)(bp_call_t *call, const void *slots);
    /* Run before each sample, outside the window; NULL: nothing to prepare. */
    void (*setup)(void);
    /* Run after each sample, outside the window; 0 when the results are right. NULL: no check. */
    int (*check)(void);
} bp_target_t;

/* A row of the board's function table: either `packed`, or a `target` that the agent calls. */
typedef struct {
    const char *name;          /* in BP_ROM, 1..255 bytes */
    const char *signature;     /* in BP_ROM, "(n: u32) -> i32"; "" when only the board knows */
    bp_packed_t *packed;       /* NULL: call `target` */
    const bp_target_t *target; /* in BP_ROM; NULL: cannot be measured */
} bp_function_t;

/// Streams ///

#if BP_CFG_STREAM
/* Append a record to what the host hears, as a whole or, when it finds no room, not at all: then it
 * counts as dropped. For packed functions and measured ones, best in their set-up; each is sent
 * when the call or the round has ended. Returns `length`, or 0 when it was dropped or nobody
 * listens. */
size_t bp_stream_write(const void *record, size_t length);
#endif

/// Collectors ///

/* A counter that a collector reads, and whether it can be trusted. */
typedef struct {
    const char *name;   /* in BP_ROM; as in the layout */
    const char *source; /* in BP_ROM; the register or call it is read from, for people */
    uint32_t hz;        /* rate, 0: not a clock */
    uint32_t coarse_hz; /* rate of the layout's coarse clock, 0: none */
    uint32_t detail;    /* BP_COUNTER_REFUSED: the system's error number */
    uint8_t bits;       /* width; differences are modulo 2^bits */
    uint8_t status;     /* enum bp_counter_status, found by init */
    bool counts_in_sleep;
} bp_counter_t;

/* An init/start/stop triple, and what programs it if it can be. `start` and `stop` run inside the
 * window: they read registers and store words, nothing else; those of an operating system's
 * counters make its system calls. Windows nest, each with a state of its own. */
typedef struct {
    const char *name; /* in BP_ROM */
    /* Bring the counters up and find out whether each advances; remembers it for `counter`. */
    void (*init)(void);
    void (*start)(void *state);
    void (*stop)(void *state);
    /* Write the body of the blob, `body_length` bytes, from a stopped state. */
    void (*encode)(uint8_t *out, const void *state);
    /* Describe counter `index`, 0..counters - 1. */
    void (*counter)(bp_counter_t *out, uint8_t index);
#if BP_CFG_OPEN_WINDOWS
    /* Programmable counters, called slots; NULL: the counters are fixed. Take the events as the
     * call's arguments, one a slot, and see with bp_arg_end that there are no more, before anything
     * is changed. Then program them, switch the other slots off, and return for each event an
     * array: an enum bp_counter_status, OK if the slot was seen to be programmed, and a detail.
     * SPEC.md 5.3. Returns call->err. */
    int (*select)(bp_call_t *call);
    /* Return name and description of the event with the index that is the only argument, nil behind
     * the last; NULL: the host's files know the events. Only beside `select`. */
    int (*event)(bp_call_t *call);
#endif
#if BP_CFG_INTERRUPTS > 1
    /* Take what a window within this one has counted out of it, by both states: bp_wire.h has a
     * function for each layout. NULL: interrupts stay in the counts. */
    void (*skip)(void *state, const void *part);
#endif
    uint32_t layout_crc;
    uint16_t schema_id;
    uint16_t body_length;
    uint16_t state_bytes; /* at most BP_CFG_STATE_BYTES for all that are active at once */
    uint8_t version;
    uint8_t counters; /* at least 1 */
} bp_collector_t;

#if BP_CFG_OPEN_WINDOWS
enum { BP_SELECT_MOST = 4 };

/* What `select` needs of a collector whose events are numbers. */
typedef struct {
    uintptr_t largest; /* event; others are refused */
    void (*all_off)(void);
    /* Program `slot` with events[slot]; returns what becomes of it, an enum bp_counter_status. */
    uint8_t (*program)(const uintptr_t *events, uint_fast8_t slot);
    uint8_t *status;    /* of each slot; it is stored there as well */
    uint_fast8_t slots; /* 1..BP_SELECT_MOST */
} bp_select_t;

/* A collector's whole `select`. */
int bp_select_slots(bp_call_t *call, const bp_select_t *select);
#endif

/// Interrupts ///

/* What comes between these two is left out of the window that it interrupts: let them be the first
 * and the last thing that a handler does. Handlers may nest. The host knows what an interrupt takes
 * outside of them from an empty one (bp_port_interrupt). Nothing without BP_CFG_INTERRUPTS 2.
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
/* What took the core away from windows and from whatever else ran, since the start. */
typedef struct {
    uint64_t interrupts; /* that came while none ran */
    uint64_t switches;   /* from the task of a window to another one */
    uint64_t ticks;      /* in both, while a window was open */
} bp_away_t;

extern bp_away_t bp_away; /* for the collector `interrupts` */
#endif

/* Another task runs from now on, whatever `task` stands for. Until the one that began the window is
 * back, what runs is left out of it; what the switch takes beside that is not.
 * Context: the operating system's switch, in an interrupt or not.
 * Example: FreeRTOS: `#define traceTASK_SWITCHED_IN() bp_task_switched(pxCurrentTCB)` */
#if BP_CFG_INTERRUPTS > 1
void bp_task_switched(const void *task);
#else
#define bp_task_switched(task) ((void)(task))
#endif

/// The firmware: what the build puts together ///

typedef struct {
    const char *board;                       /* in BP_ROM: the board's name */
    const bp_function_t *functions;          /* in BP_ROM */
    const bp_collector_t *const *collectors; /* in BP_ROM, of pointers into BP_ROM */
    uint16_t function_count;
    uint8_t collector_count; /* 0..8 */
    uint8_t build_id[8];
} bp_firmware_t;

/* The table that the build generates; boards whose main is src/bp_main.c link it. */
extern const bp_firmware_t bp_firmware; /* in BP_ROM */

/// The agent ///

struct bp_agent {
    const bp_firmware_t *firmware;
    uint32_t boot_id; /* 0: no host has said hello yet */
    uint32_t dictionary_hash;
    uint32_t last_sequence; /* of the last call that was taken */
    uint32_t nonce;         /* of the HELLO that began the session */
    uint16_t session;       /* 0: none */
    uint16_t reply_length;  /* bytes of the cached reply in `tx`, 0: none */
    uint16_t rx_length;
    uint8_t rx_group; /* COBS: bytes left of the current group */
    uint8_t rx_code;  /* COBS: code of the current group, 0: at the start of a frame */
    bool rx_bad;      /* too long or not COBS: skip to the next delimiter */
#if BP_CFG_GUARD
    uint8_t fault_cause; /* enum bp_fault_cause: what ended the call that runs */
    uint32_t guard_ms;   /* longest time of a guarded call, 0: no limit */
    uint64_t fault_pc;   /* as in bp_fault_t */
    uint64_t fault_address;
#endif
#if BP_CFG_CLOCK
    uint64_t received; /* bp_port_ticks when the last frame had come */
#endif
#if BP_CFG_BULK
    uint16_t in_head; /* in[in_head..in_tail) has been taken from the line, no more */
    uint16_t in_tail;
    int kept; /* decoded length of the HELLO in `rx` that ended a measurement; 0: none did */
    uint8_t in[BP_CHUNK];
#endif
    uint8_t rx[BP_FRAME_MAX];
    uint8_t tx[BP_CFG_MTU]; /* the last reply, encoded: sent again to a duplicate */
};

/* Prepare an agent in `agent`; probes every collector's counters. Call once after a reset.
 * `firmware` (in BP_ROM) and `agent` must outlive it. */
void bp_init(bp_agent_t *agent, const bp_firmware_t *firmware);

/* Handle what has arrived; never blocks for the host.
 * Not for packed functions: the call that runs stands in the buffer that it would fill.
 * Returns the bytes taken and sent of a channel; 0 means that there was nothing to do. */
size_t bp_poll(bp_agent_t *agent);

/* bp_init, then poll for ever. */
_Noreturn void bp_serve(const bp_firmware_t *firmware);

#endif
