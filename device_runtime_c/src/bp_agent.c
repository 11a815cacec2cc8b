/* SPDX-License-Identifier: Apache-2.0 */
/* The session: which frames are answered and how, and that each call runs at most once. */

#include "boardprof/bp.h"
#include "boardprof/bp_frame.h"
#include "boardprof/bp_port.h"
#include "bp_internal.h"

#define BP_TX_BODY BP_FRAME_BODY(BP_FRAME_MAX)

struct bp_agent bp_agent;

/// Start and poll ///

/* Answer the frame of `length` bytes in the receiver; -1: it is damaged. */
static void bp_handle(int length);

void bp_init(void) {
    __builtin_memset(&bp_agent, 0, sizeof bp_agent);
#if BP_CFG_BULK
    /* The board `native` calls bp_init for each host, and the last one may have left a channel
     * open. */
    bp_channel_close(BP_CHANNEL_ANY);
#endif
    const bp_collector_t *collector;
    for (uint32_t i = 0; (collector = bp_collector_at(i)) != NULL; i++) {
        BP_ROM_GET(collector->init)();
    }
}

#if BP_CFG_BULK

/* Take bytes from the line, once all that were taken before are decoded. */
static size_t bp_fill(void) {
    size_t taken = bp_port_read(bp_agent.in, sizeof bp_agent.in);
    bp_agent.in_next = bp_agent.in;
    bp_agent.in_end = bp_agent.in + taken;
    return taken;
}

/* Decode up to the end of the next frame; returns what bp_frame_take does. */
static int bp_next(void) {
    int length;
    size_t waiting = (size_t)(bp_agent.in_end - bp_agent.in_next);
    bp_agent.in_next += bp_frame_take_some(&bp_agent.receiver, bp_agent.in_next, waiting, &length);
    return length;
}

size_t bp_poll(void) {
    size_t taken = bp_fill();
    for (int length; (length = bp_next()) != 0;) {
        bp_handle(length);
        if (bp_agent.kept != 0) {
            length = bp_agent.kept;
            bp_agent.kept = 0;
            bp_handle(length);
        }
    }
#if BP_CFG_TRACE
    bp_trace_drain();
#endif
    return taken + bp_channel_send();
}

#else

size_t bp_poll(void) {
    uint8_t chunk[32];
    size_t taken = bp_port_read(chunk, sizeof chunk);
    for (size_t i = 0; i < taken; i++) {
        int length = bp_frame_take(&bp_agent.receiver, chunk[i]);
        if (length != 0) {
            bp_handle(length);
        }
    }
    return taken;
}

#endif

__attribute__((weak)) void bp_port_alive(void) {
}

_Noreturn void bp_serve(void) {
    bp_init();
    for (;;) {
        bp_port_alive();
        if (bp_poll() == 0) {
            bp_port_idle();
        }
    }
}

/// Frames that are not cached ///

/* Send the frame whose body of `body_length` bytes is in `buffer`. */
static void bp_send_small(uint8_t *buffer, size_t raw, size_t body_length, uint8_t kind,
                          uint16_t session, uint32_t sequence) {
    size_t length = bp_frame_seal(buffer, BP_FRAME_LEAD(raw), body_length, kind, session, sequence);
    bp_port_write(buffer, length);
}

static void bp_send_empty(uint8_t kind, uint16_t session, uint32_t sequence) {
    uint8_t buffer[BP_FRAME_BUFFER(0)];
    bp_send_small(buffer, BP_FRAME_RAW(0), 0, kind, session, sequence);
}

void bp_progress(uint32_t done, uint32_t total) {
    enum { BODY = 11 };
    uint8_t buffer[BP_FRAME_BUFFER(BODY)];
    uint8_t *body = buffer + BP_FRAME_BODY(BP_FRAME_RAW(BODY));
    bp_call_t writer = {.out = body, .out_end = body + BODY};
    bp_ret_array(&writer, 2);
    bp_ret_uint(&writer, done);
    bp_ret_uint(&writer, total);
    bp_send_small(buffer, BP_FRAME_RAW(BODY), (size_t)(writer.out - body), BP_KIND_PROGRESS,
                  bp_agent.session, bp_agent.last_sequence);
}

#if BP_CFG_BULK
void bp_send_body(uint8_t kind, uint16_t session, uint32_t sequence, const uint8_t *body,
                  size_t length) {
    enum { LONGEST = 16 };
    uint8_t buffer[BP_FRAME_BUFFER(LONGEST)];
    uint8_t *out = buffer + BP_FRAME_BODY(BP_FRAME_RAW(LONGEST));
    for (size_t i = 0; i < length; i++) {
        out[i] = body[i];
    }
    bp_send_small(buffer, BP_FRAME_RAW(LONGEST), length, kind, session, sequence);
}
#endif

static uint8_t bp_welcome_flags(void) {
    const uint16_t one = 1;
    return *(const uint8_t *)&one != 0 ? 0 : BP_WELCOME_BIG_ENDIAN;
}

static bool bp_is_hello(uint16_t session, const uint8_t *body, size_t length) {
    return length >= BP_HELLO_LEN && bp_get_u32(body) == BP_HELLO_MAGIC && session != 0;
}

/* Whether a HELLO begins a session. A late duplicate of this session's own HELLO must not, or calls
 * would run again. Another host may have drawn the same session id, but not the same nonce. */
static bool bp_begins(uint16_t session, uint32_t nonce, const uint8_t *body) {
    bool speaks = body[4] <= BP_PROTOCOL_VERSION && BP_PROTOCOL_VERSION <= body[5];
    return speaks && (session != bp_agent.session || nonce != bp_agent.nonce);
}

/* Answer HELLO. Its sequence number equals its nonce (SPEC.md 3.1) and is read already. */
static void bp_hello(uint16_t session, uint32_t nonce, const uint8_t *body, size_t length) {
    if (!bp_is_hello(session, body, length)) {
        return;
    }
    if (bp_begins(session, nonce, body)) {
        bp_agent.session = session;
        bp_agent.nonce = nonce;
        bp_agent.reply_length = 0;
        /* Computed again, since the host may have run a collector's init, which probes counters. */
        bp_agent.dictionary_hash = bp_dictionary_hash();
#if BP_CFG_ARENA
        bp_arena_reset();
#endif
#if BP_CFG_GUARD
        bp_agent.guard_ms = 0;
#endif
#if BP_CFG_OPEN_WINDOWS
        bp_window_forget(NULL);
#endif
        /* If the board has no entropy, the host's nonce still makes the boots differ. */
        if (bp_agent.boot_id == 0) {
            bp_agent.boot_id = (bp_port_boot_id() ^ nonce) | 1u;
        }
        /* A late HELLO may begin an old session again, for example after a reset. Its CALLs must
         * not run again, so the numbers begin far from those of all earlier sessions. */
        bp_agent.last_sequence += bp_agent.boot_id << 16;
    }
    bp_welcome_t welcome = {
        .version_min = BP_PROTOCOL_VERSION,
        .version_max = BP_PROTOCOL_VERSION,
        .flags = bp_welcome_flags(),
        .pointer_size = sizeof(void *),
        .mtu_rx = BP_CFG_MTU,
        .mtu_tx = BP_CFG_MTU,
        .window = 1,
        .reset_cause = bp_port_reset_cause(),
        .boot_id = bp_agent.boot_id,
        .last_sequence = bp_agent.last_sequence,
        .dictionary_hash = bp_agent.dictionary_hash,
    };
    for (uint8_t i = 0; i < sizeof welcome.build_id; i++) {
        welcome.build_id[i] = BP_ROM_GET(bp_firmware.build_id[i]);
    }
    uint8_t buffer[BP_FRAME_BUFFER(BP_WELCOME_LEN)];
    bp_welcome_put(buffer + BP_FRAME_BODY(BP_FRAME_RAW(BP_WELCOME_LEN)), &welcome);
    bp_send_small(buffer, BP_FRAME_RAW(BP_WELCOME_LEN), BP_WELCOME_LEN, BP_KIND_WELCOME, session,
                  nonce);
}

static int bp_dispatch(bp_call_t *call) {
    call->argc = bp_arg_array(call);
    uint32_t id = bp_arg_u32(call);
    return call->err != 0 ? call->err : bp_invoke(call, id);
}

/* Run the call in the receiver; send its reply and keep it in bp_agent.tx. */
static void bp_run(size_t body_length) {
    uint8_t *body = bp_agent.tx + BP_TX_BODY;
    bp_call_t call = {
        .in = bp_agent.receiver.frame + BP_FRAME_HEADER,
        .in_end = bp_agent.receiver.frame + BP_FRAME_HEADER + body_length,
        .out = body,
        .out_end = body + (BP_FRAME_MAX - BP_FRAME_RAW(0)),
    };
    uint8_t kind = BP_KIND_RESULT;
#if BP_CFG_GUARD
    bp_agent.fault.cause = BP_FAULT_NONE;
#endif
    bp_fail(&call, bp_dispatch(&call), 0);
#if BP_CFG_BULK
    if (bp_agent.kept != 0) {
        return; /* another session begins, so no host waits for this reply */
    }
#endif
    if (call.err != 0) {
        uint8_t code = (uint8_t)-call.err;
        kind = BP_KIND_ERROR;
        call.err = 0;
        call.out = body;
#if BP_CFG_GUARD
        bp_ret_error(&call, code, call.detail);
#else
        bp_ret_array(&call, 2);
        bp_ret_uint(&call, code);
        bp_ret_uint(&call, call.detail);
#endif
    }
    size_t length =
        bp_frame_seal(bp_agent.tx, BP_FRAME_LEAD(BP_FRAME_MAX), (size_t)(call.out - body), kind,
                      bp_agent.session, bp_agent.last_sequence);
    bp_agent.reply_length = (uint16_t)length;
    bp_port_write(bp_agent.tx, length);
#if BP_CFG_BULK
    bp_channel_begin();
#endif
}

/* Whether the frame in the receiver is undamaged; otherwise the host gets a NAK. */
static bool bp_is_sound(int length) {
    bool sound = bp_frame_is_sound(bp_agent.receiver.frame, length);
    if (!sound) {
        bp_send_empty(BP_KIND_NAK, bp_agent.session, bp_agent.last_sequence);
    }
    return sound;
}

#if BP_CFG_BULK

/* Take a frame that is neither HELLO nor CALL. */
static void bp_aside(size_t body_length) {
    const uint8_t *frame = bp_agent.receiver.frame;
    if (frame[0] >> 4 == BP_PROTOCOL_VERSION && bp_get_u16(frame + 1) == bp_agent.session) {
        bp_channel_take(frame[0] & 15u, bp_get_u32(frame + 3), frame + BP_FRAME_HEADER,
                        body_length);
    }
}

#endif

static void bp_handle(int length) {
#if BP_CFG_CLOCK
    bp_agent.received = bp_port_ticks();
#endif
    const uint8_t *frame = bp_agent.receiver.frame;
    if (!bp_is_sound(length)) {
        return;
    }
    size_t body_length = (size_t)length - BP_FRAME_RAW(0);
    uint16_t session = bp_get_u16(frame + 1);
    uint32_t sequence = bp_get_u32(frame + 3);
    uint32_t ahead = sequence - bp_agent.last_sequence;
    if ((frame[0] & 15u) == BP_KIND_HELLO) { /* of any version */
        bp_hello(session, sequence, frame + BP_FRAME_HEADER, body_length);
    } else if (frame[0] != (BP_PROTOCOL_VERSION << 4 | BP_KIND_CALL)) {
#if BP_CFG_BULK
        bp_aside(body_length);
#endif
    } else if (session != bp_agent.session || session == 0 || ahead >> 16 != 0) {
        bp_send_empty(BP_KIND_NO_SESSION, session, sequence);
    } else if (ahead != 0) {
        bp_agent.last_sequence = sequence;
        bp_run(body_length);
    } else {
        /* A duplicate gets the cached reply: calls run at most once. */
        bp_port_write(bp_agent.tx, bp_agent.reply_length);
#if BP_CFG_BULK
        bp_channel_begin();
#endif
    }
}

#if BP_CFG_BULK

/* Take a frame between two rounds of a measurement; returns whether it ends the measurement. */
static bool bp_overhear(int length) {
    const uint8_t *frame = bp_agent.receiver.frame;
    if (!bp_is_sound(length)) {
        return false;
    }
    const uint8_t *body = frame + BP_FRAME_HEADER;
    size_t body_length = (size_t)length - BP_FRAME_RAW(0);
    uint16_t session = bp_get_u16(frame + 1);
    uint32_t sequence = bp_get_u32(frame + 3);
    if ((frame[0] & 15u) == BP_KIND_HELLO) {
        bool ends = bp_is_hello(session, body, body_length) && bp_begins(session, sequence, body);
        bp_agent.kept = ends ? length : 0;
        return ends;
    }
    if (frame[0] == (BP_PROTOCOL_VERSION << 4 | BP_KIND_CANCEL)) {
        return session == bp_agent.session && sequence == bp_agent.last_sequence;
    }
    bp_aside(body_length);
    return false;
}

/* Take all frames in the bytes that were read; returns whether one ends the measurement. */
static bool bp_overhear_all(void) {
    for (int length; (length = bp_next()) != 0;) {
        if (bp_overhear(length)) {
            return true;
        }
    }
    return false;
}

bool bp_broken_off(void) {
    /* At most one read per round, so that a host that never stops sending cannot block it. */
    if (bp_overhear_all() || (bp_fill() != 0 && bp_overhear_all())) {
        return true;
    }
#if BP_CFG_TRACE
    bp_trace_drain();
#endif
    bp_channel_send();
    return false;
}

#endif
