/* SPDX-License-Identifier: Apache-2.0 */
/* A board in virtual time: the real agent on a stack of its own, which gives way whenever the clock
 * has to go on, so that a frame, a cancellation or a reset can come in the middle of a call. What
 * its functions did is written down behind the board's back and survives its resets. */

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "boardprof/bp.h"
#include "boardprof/bp_le.h"
#include "boardprof/bp_port.h"
#include "bp_internal.h"

/* Not in .bss, which a reset wipes. */
#define SIM_KEPT __attribute__((section("sim_kept")))

#define SIM_NEVER UINT64_MAX

/* What ran, with which arguments. */
typedef struct {
    uint32_t function;
    uint32_t token;
    uint32_t digest; /* of all other arguments */
} sim_run_t;

enum sim_function { SIM_NOTE, SIM_POP, SIM_ECHO, SIM_SLOW, SIM_WORK };

enum {
    SIM_RUNS = 4096,
    SIM_STACK = 1 << 16,
    SIM_RX = 1 << 14,
    SIM_TX = 1 << 17,
};

uint64_t sim_clock SIM_KEPT = 0; /* microseconds since the simulation began */
sim_run_t sim_runs[SIM_RUNS] SIM_KEPT = {{0}};
uint32_t sim_ran SIM_KEPT = 0;
uint32_t sim_popped SIM_KEPT = 0; /* how often the read-once register was read */
uint32_t sim_boots SIM_KEPT = 0;
uint32_t sim_entropy SIM_KEPT = 0; /* what bp_port_boot_id returns */
uint32_t sim_overrun SIM_KEPT = 0; /* bytes that came while the receiver was full */

static ucontext_t sim_driver SIM_KEPT = {0};
static ucontext_t sim_board SIM_KEPT = {0};
static uint8_t sim_stack[SIM_STACK] SIM_KEPT __attribute__((aligned(16))) = {0};
static uint64_t sim_wake SIM_KEPT = SIM_NEVER;
static uint8_t sim_rx[SIM_RX] SIM_KEPT = {0};
static size_t sim_rx_begin SIM_KEPT = 0;
static size_t sim_rx_end SIM_KEPT = 0;
static uint8_t sim_tx[SIM_TX] SIM_KEPT = {0};
static size_t sim_tx_end SIM_KEPT = 0;
static bool sim_is_up SIM_KEPT = false; /* since bp_init */

/// Time ///

/* Let the rest of the world go on until `wake`, or until something comes. */
static void sim_yield(uint64_t wake) {
    sim_wake = wake;
    swapcontext(&sim_board, &sim_driver);
}

static void sim_spend(uint64_t microseconds) {
    uint64_t until = sim_clock + microseconds;
    while (sim_clock < until) {
        sim_yield(until);
    }
}

/// What the driver calls ///

extern char sim_bss_begin[] __asm__("__bss_start") __attribute__((visibility("hidden")));
extern char sim_bss_end[] __asm__("_end") __attribute__((visibility("hidden")));

static void sim_serve(void) {
    bp_init();
    sim_is_up = true;
    for (;;) {
        if (bp_poll() == 0) {
            sim_yield(SIM_NEVER);
        }
    }
}

/* Start the board, or start it again in the middle of whatever it does. */
void sim_reset(uint32_t entropy);
void sim_reset(uint32_t entropy) {
    if (sim_bss_begin <= (char *)&sim_clock && (char *)&sim_clock < sim_bss_end) {
        fprintf(stderr, "board.c: the linker has put sim_kept where a reset wipes it\n");
        abort();
    }
    memset(sim_bss_begin, 0, (size_t)(sim_bss_end - sim_bss_begin));
    sim_boots++;
    sim_is_up = false;
    sim_entropy = entropy;
    sim_rx_begin = sim_rx_end = 0;
    getcontext(&sim_board);
    sim_board.uc_stack.ss_sp = sim_stack;
    sim_board.uc_stack.ss_size = sizeof sim_stack;
    sim_board.uc_link = NULL;
    makecontext(&sim_board, sim_serve, 0);
    sim_wake = 0;
}

/* Begin a schedule: a board that was just switched on, at time 0, and nothing written down. */
void sim_begin(uint32_t entropy);
void sim_begin(uint32_t entropy) {
    sim_clock = 0;
    sim_ran = sim_popped = sim_boots = sim_overrun = 0;
    sim_tx_end = 0;
    sim_reset(entropy);
}

/* It is `clock`, and these bytes have come. Returns when the board wants to go on if nothing comes;
 * SIM_NEVER: not before. */
uint64_t sim_step(uint64_t clock, const uint8_t *bytes, size_t length);
uint64_t sim_step(uint64_t clock, const uint8_t *bytes, size_t length) {
    if (clock > sim_clock) {
        sim_clock = clock;
    }
    if (sim_rx_begin == sim_rx_end) {
        sim_rx_begin = sim_rx_end = 0;
    }
    size_t room = SIM_RX - sim_rx_end;
    size_t taken = length < room ? length : room;
    memcpy(sim_rx + sim_rx_end, bytes, taken);
    sim_rx_end += taken;
    sim_overrun += (uint32_t)(length - taken);
    if (sim_wake <= sim_clock || (sim_wake == SIM_NEVER && length != 0)) {
        swapcontext(&sim_driver, &sim_board);
    }
    return sim_wake;
}

/* What the board has sent since the last time. Returns its length. */
size_t sim_take(uint8_t *out);
size_t sim_take(uint8_t *out) {
    size_t length = sim_tx_end;
    memcpy(out, sim_tx, length);
    sim_tx_end = 0;
    return length;
}

/* The session that the board is in, 0: none. */
uint32_t sim_session(void);
uint32_t sim_session(void) {
    return sim_is_up ? bp_agent.session : 0;
}

/* The boot id that it told, 0: none yet. */
uint32_t sim_boot_id(void);
uint32_t sim_boot_id(void) {
    return sim_is_up ? bp_agent.boot_id : 0;
}

/// bp_port.h ///

void bp_port_init(void) {
}

size_t bp_port_read(uint8_t *buffer, size_t capacity) {
    size_t length = sim_rx_end - sim_rx_begin;
    length = length < capacity ? length : capacity;
    memcpy(buffer, sim_rx + sim_rx_begin, length);
    sim_rx_begin += length;
    return length;
}

void bp_port_write(const uint8_t *buffer, size_t length) {
    if (length > sizeof sim_tx - sim_tx_end) {
        fprintf(stderr, "board.c: more was sent at one moment than is kept\n");
        abort();
    }
    memcpy(sim_tx + sim_tx_end, buffer, length);
    sim_tx_end += length;
}

void bp_port_idle(void) {
}

static const char sim_source[] BP_ROM = "sim_clock";

const bp_port_clock_t bp_port_clock BP_ROM = {
    .source = sim_source, .ticks_hz = 1000000u, .ticks_bits = 64};

uint64_t bp_port_ticks(void) {
    return sim_clock;
}

uint32_t bp_port_coarse(void) {
    return 0;
}

uint8_t bp_port_reset_cause(void) {
    return BP_RESET_PIN;
}

uint32_t bp_port_boot_id(void) {
    return sim_entropy;
}

#if BP_CFG_GUARD
void bp_port_guard(void (*body)(void *context), void *context, uint32_t timeout_ms,
                   bp_fault_t *fault) {
    (void)timeout_ms;
    body(context);
    *fault = (bp_fault_t){.cause = BP_FAULT_NONE};
}
#endif

/// Functions ///

static void sim_note(uint32_t function, uint32_t token, uint32_t digest) {
    if (sim_ran < SIM_RUNS) {
        sim_runs[sim_ran++] = (sim_run_t){.function = function, .token = token, .digest = digest};
    }
}

/* FNV-1a */
static uint32_t sim_digest(const uint8_t *bytes, size_t length) {
    uint32_t digest = 0x811c9dc5u;
    while (length--) {
        digest = (digest ^ *bytes++) * 0x01000193u;
    }
    return digest;
}

/* token -> its complement */
static int sim_fn_note(bp_call_t *call) {
    uint32_t token = bp_arg_u32(call);
    if (bp_arg_end(call) == 0) {
        sim_note(SIM_NOTE, token, 0);
        bp_ret_uint(call, ~token);
    }
    return call->err;
}

/* token -> [token, how often the read-once register was read before] */
static int sim_fn_pop(bp_call_t *call) {
    uint32_t token = bp_arg_u32(call);
    if (bp_arg_end(call) == 0) {
        sim_note(SIM_POP, token, 0);
        bp_ret_array(call, 2);
        bp_ret_uint(call, token);
        bp_ret_uint(call, sim_popped++);
    }
    return call->err;
}

/* token, bytes -> the same bytes */
static int sim_fn_echo(bp_call_t *call) {
    uint32_t token = bp_arg_u32(call);
    size_t length;
    const uint8_t *bytes = bp_arg_bytes(call, &length);
    if (bp_arg_end(call) == 0) {
        sim_note(SIM_ECHO, token, sim_digest(bytes, length));
        bp_ret_bytes(call, bytes, length);
    }
    return call->err;
}

/* token, microseconds -> the token's complement, so much later */
static int sim_fn_slow(bp_call_t *call) {
    uint32_t token = bp_arg_u32(call);
    uint32_t microseconds = bp_arg_u32(call);
    if (bp_arg_end(call) == 0) {
        sim_note(SIM_SLOW, token, microseconds);
        sim_spend(microseconds);
        bp_ret_uint(call, ~token);
    }
    return call->err;
}

typedef struct {
    uint32_t token;
    uint32_t microseconds;
} sim_slots_t;

static void sim_work(uint32_t token, uint32_t microseconds) {
    sim_note(SIM_WORK, token, microseconds);
    sim_spend(microseconds);
}

static void sim_work_thunk(bp_fn_t *fn, void *slots) {
    sim_slots_t *s = slots;
    ((void (*)(uint32_t, uint32_t))fn)(s->token, s->microseconds);
}

static int sim_work_unpack(bp_call_t *call, void *slots) {
    sim_slots_t *s = slots;
    s->token = bp_arg_u32(call);
    s->microseconds = bp_arg_u32(call);
    return call->err;
}

static void sim_work_pack(bp_call_t *call, const void *slots) {
    (void)slots;
    bp_ret_nil(call);
}

static const bp_target_t sim_work_target BP_ROM = {.fn = (bp_fn_t *)sim_work,
                                                   .thunk = sim_work_thunk,
                                                   .unpack = sim_work_unpack,
                                                   .pack = sim_work_pack};

/// A collector that counts runs of anything ///

typedef struct {
    uint32_t start;
    uint32_t stop;
} sim_probe_t;

static void sim_probe_init(void) {
}

static void sim_probe_start(void *state) {
    ((sim_probe_t *)state)->start = sim_ran;
}

static void sim_probe_stop(void *state) {
    ((sim_probe_t *)state)->stop = sim_ran;
}

static void sim_probe_encode(uint8_t *out, const void *state) {
    const sim_probe_t *s = state;
    bp_put_u32(bp_put_u32(out, s->start), s->stop);
}

static const char sim_name_probe[] BP_ROM = "probe";
static const char sim_name_runs[] BP_ROM = "runs";

static void sim_probe_counter(bp_counter_t *out, uint8_t index) {
    (void)index;
    out->name = sim_name_runs;
    out->source = sim_name_runs;
    out->bits = 32;
    out->status = BP_COUNTER_OK;
}

static const bp_collector_t sim_probe BP_ROM = {
    .name = sim_name_probe,
    .init = sim_probe_init,
    .start = sim_probe_start,
    .stop = sim_probe_stop,
    .encode = sim_probe_encode,
    .counter = sim_probe_counter,
    .layout_crc = 0x11223344u,
    .schema_id = 60000u,
    .body_length = 8,
    .version = 1,
    .state_bytes = sizeof(sim_probe_t),
    .counters = 1,
};

/// The table, in the order of enum sim_function ///

static const char sim_name_note[] BP_ROM = "note";
static const char sim_name_pop[] BP_ROM = "pop";
static const char sim_name_echo[] BP_ROM = "echo";
static const char sim_name_slow[] BP_ROM = "slow";
static const char sim_name_work[] BP_ROM = "work";
static const char sim_signature[] BP_ROM = "";
static const char sim_signature_work[] BP_ROM = "(token: u32, microseconds: u32) -> void";
static const char sim_name[] BP_ROM = "simulation";

static const bp_function_t sim_functions[] BP_ROM = {
    {sim_name_note, sim_signature, sim_fn_note, NULL},
    {sim_name_pop, sim_signature, sim_fn_pop, NULL},
    {sim_name_echo, sim_signature, sim_fn_echo, NULL},
    {sim_name_slow, sim_signature, sim_fn_slow, NULL},
    {sim_name_work, sim_signature_work, NULL, &sim_work_target},
};

static const bp_collector_t *const sim_collectors[] BP_ROM = {&sim_probe};

const bp_firmware_t bp_firmware BP_ROM = {
    .board = sim_name,
    .functions = sim_functions,
    .collectors = sim_collectors,
    .function_count = sizeof sim_functions / sizeof sim_functions[0],
    .collector_count = sizeof sim_collectors / sizeof sim_collectors[0],
    .build_id = {1, 2, 3, 4, 5, 6, 7, 8},
};
