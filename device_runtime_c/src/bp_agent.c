/* SPDX-License-Identifier: Apache-2.0 */
/* Session and dispatch: which frames are answered, and how often a call runs (at most once). */

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"
#include "bp_frame.h"
#include "bp_internal.h"

#define BP_TX_BODY BP_FRAME_BODY(BP_FRAME_MAX)

/* Send a frame that is not cached: `body_length` bytes already stand in `buffer`. */
static void bp_send_small(uint8_t *buffer, size_t raw, size_t body_length, uint8_t kind,
                          uint16_t session, uint32_t sequence) {
    size_t length = bp_frame_seal(buffer, BP_FRAME_LEAD(raw), body_length, kind, session, sequence);
    bp_port_write(buffer, length);
}

static void bp_send_empty(uint8_t kind, uint16_t session, uint32_t sequence) {
    uint8_t buffer[BP_FRAME_BUFFER(0)];
    bp_send_small(buffer, BP_FRAME_RAW(0), 0, kind, session, sequence);
}

void bp_progress(const bp_agent_t *agent, uint32_t done, uint32_t total) {
    enum { BODY = 11 };
    uint8_t buffer[BP_FRAME_BUFFER(BODY)];
    uint8_t *body = buffer + BP_FRAME_BODY(BP_FRAME_RAW(BODY));
    bp_call_t writer = {.out = body, .out_end = body + BODY};
    bp_ret_array(&writer, 2);
    bp_ret_uint(&writer, done);
    bp_ret_uint(&writer, total);
    bp_send_small(buffer, BP_FRAME_RAW(BODY), (size_t)(writer.out - body), BP_KIND_PROGRESS,
                  agent->session, agent->last_sequence);
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

/* A late duplicate of this session's own HELLO must not forget what the session has done. Another
 * host may have drawn the same id, but not the same nonce. */
static bool bp_begins(const bp_agent_t *agent, uint16_t session, uint32_t nonce,
                      const uint8_t *body) {
    bool speaks = body[4] <= BP_PROTOCOL_VERSION && BP_PROTOCOL_VERSION <= body[5];
    return speaks && (session != agent->session || nonce != agent->nonce);
}

/* Its sequence number is its nonce, too (SPEC.md 3.1), and takes less code to read. */
static void bp_hello(bp_agent_t *agent, uint16_t session, uint32_t nonce, const uint8_t *body,
                     size_t length) {
    if (!bp_is_hello(session, body, length)) {
        return;
    }
    if (bp_begins(agent, session, nonce, body)) {
        agent->session = session;
        agent->nonce = nonce;
        agent->reply_length = 0;
        /* Not once for all: a collector's init may have found other counters than at the start. */
        agent->dictionary_hash = bp_dictionary_hash(agent);
#if BP_CFG_ARENA
        bp_arena_reset();
#endif
#if BP_CFG_GUARD
        agent->guard_ms = 0;
#endif
#if BP_CFG_OPEN_WINDOWS
        bp_window_forget(NULL);
#endif
        /* Where a board has no entropy, the host's nonce still tells one boot from the next. */
        if (agent->boot_id == 0) {
            agent->boot_id = (bp_port_boot_id() ^ nonce) | 1u;
        }
        /* Far from the numbers of all earlier begins of a session with this id: a late HELLO may
         * begin it again, after a reset, say, and its CALLs must not run again. */
        agent->last_sequence += agent->boot_id << 16;
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
        .boot_id = agent->boot_id,
        .last_sequence = agent->last_sequence,
        .dictionary_hash = agent->dictionary_hash,
    };
    for (uint8_t i = 0; i < sizeof welcome.build_id; i++) {
        welcome.build_id[i] = BP_ROM_GET(agent->firmware->build_id[i]);
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

/* Run the call in agent->rx and keep its reply in agent->tx. */
static void bp_run(bp_agent_t *agent, size_t body_length) {
    uint8_t *body = agent->tx + BP_TX_BODY;
    bp_call_t call = {
        .agent = agent,
        .in = agent->rx + BP_FRAME_HEADER,
        .in_end = agent->rx + BP_FRAME_HEADER + body_length,
        .out = body,
        .out_end = body + (BP_FRAME_MAX - BP_FRAME_RAW(0)),
    };
    uint8_t kind = BP_KIND_RESULT;
#if BP_CFG_GUARD
    agent->fault_cause = BP_FAULT_NONE;
#endif
    bp_fail(&call, bp_dispatch(&call), 0);
#if BP_CFG_BULK
    if (agent->kept != 0) {
        return; /* another session begins: nobody waits for this answer */
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
    size_t length = bp_frame_seal(agent->tx, BP_FRAME_LEAD(BP_FRAME_MAX), (size_t)(call.out - body),
                                  kind, agent->session, agent->last_sequence);
    agent->reply_length = (uint16_t)length;
    bp_port_write(agent->tx, length);
#if BP_CFG_BULK
    bp_channel_begin(agent);
#endif
}

/* Whether the CRC behind `checked` bytes is theirs. */
static bool bp_is_sound(const uint8_t *frame, size_t checked) {
    return bp_crc32(0, frame, checked) == bp_get_u32(frame + checked);
}

#if BP_CFG_BULK

/* A frame that is neither HELLO nor CALL. */
static void bp_aside(bp_agent_t *agent, size_t body_length) {
    const uint8_t *frame = agent->rx;
    if (frame[0] >> 4 == BP_PROTOCOL_VERSION && bp_get_u16(frame + 1) == agent->session) {
        bp_channel_take(agent, frame[0] & 15u, bp_get_u32(frame + 3), frame + BP_FRAME_HEADER,
                        body_length);
    }
}

#endif

static void bp_handle(bp_agent_t *agent, int length) {
#if BP_CFG_CLOCK
    agent->received = bp_port_ticks();
#endif
    const uint8_t *frame = agent->rx;
    size_t checked = (size_t)length - BP_FRAME_CRC;
    if (length < (int)BP_FRAME_RAW(0) || !bp_is_sound(frame, checked)) {
        bp_send_empty(BP_KIND_NAK, agent->session, agent->last_sequence);
        return;
    }
    size_t body_length = checked - BP_FRAME_HEADER;
    uint16_t session = bp_get_u16(frame + 1);
    uint32_t sequence = bp_get_u32(frame + 3);
    uint32_t ahead = sequence - agent->last_sequence;
    if ((frame[0] & 15u) == BP_KIND_HELLO) { /* of any version */
        bp_hello(agent, session, sequence, frame + BP_FRAME_HEADER, body_length);
    } else if (frame[0] != (BP_PROTOCOL_VERSION << 4 | BP_KIND_CALL)) {
#if BP_CFG_BULK
        bp_aside(agent, body_length);
#endif
    } else if (session != agent->session || session == 0 || ahead >> 16 != 0) {
        bp_send_empty(BP_KIND_NO_SESSION, session, sequence);
    } else if (ahead != 0) {
        agent->last_sequence = sequence;
        bp_run(agent, body_length);
    } else {
        /* At most once: a duplicate gets the first answer again. */
        bp_port_write(agent->tx, agent->reply_length);
#if BP_CFG_BULK
        bp_channel_begin(agent);
#endif
    }
}

#if BP_CFG_BULK

/* Take bytes from the line; none may be left of those before. */
static size_t bp_fill(bp_agent_t *agent) {
    agent->in_head = 0;
    agent->in_tail = (uint16_t)bp_port_read(agent->in, sizeof agent->in);
    return agent->in_tail;
}

/* Go on to the end of the next frame; its decoded length as of bp_frame_take, 0: none ends yet. */
static int bp_next(bp_agent_t *agent) {
    int length = 0;
    size_t waiting = (size_t)(agent->in_tail - agent->in_head);
    agent->in_head +=
        (uint16_t)bp_frame_take_some(agent, agent->in + agent->in_head, waiting, &length);
    return length;
}

/* A frame that comes between rounds of a measurement. Returns whether it ends that. */
static bool bp_overhear(bp_agent_t *agent, int length) {
    const uint8_t *frame = agent->rx;
    size_t checked = (size_t)length - BP_FRAME_CRC;
    if (length < (int)BP_FRAME_RAW(0) || !bp_is_sound(frame, checked)) {
        bp_send_empty(BP_KIND_NAK, agent->session, agent->last_sequence);
        return false;
    }
    const uint8_t *body = frame + BP_FRAME_HEADER;
    size_t body_length = checked - BP_FRAME_HEADER;
    uint16_t session = bp_get_u16(frame + 1);
    uint32_t sequence = bp_get_u32(frame + 3);
    if ((frame[0] & 15u) == BP_KIND_HELLO) {
        bool ends =
            bp_is_hello(session, body, body_length) && bp_begins(agent, session, sequence, body);
        agent->kept = ends ? length : 0;
        return ends;
    }
    if (frame[0] == (BP_PROTOCOL_VERSION << 4 | BP_KIND_CANCEL)) {
        return session == agent->session && sequence == agent->last_sequence;
    }
    bp_aside(agent, body_length);
    return false;
}

/* What is left of the bytes taken; true once a frame ends the measurement. */
static bool bp_overhear_all(bp_agent_t *agent) {
    for (int length; (length = bp_next(agent)) != 0;) {
        if (bp_overhear(agent, length)) {
            return true;
        }
    }
    return false;
}

bool bp_broken_off(bp_agent_t *agent) {
    /* No more than a piece a round: a host that never stops sending must not hold it up. */
    if (bp_overhear_all(agent) || (bp_fill(agent) != 0 && bp_overhear_all(agent))) {
        return true;
    }
    bp_channel_send(agent);
    return false;
}

size_t bp_poll(bp_agent_t *agent) {
    size_t taken = bp_fill(agent);
    for (int length; (length = bp_next(agent)) != 0;) {
        bp_handle(agent, length);
        if (agent->kept != 0) {
            length = agent->kept;
            agent->kept = 0;
            bp_handle(agent, length);
        }
    }
    return taken + bp_channel_send(agent);
}

#else

size_t bp_poll(bp_agent_t *agent) {
    uint8_t chunk[32];
    size_t taken = bp_port_read(chunk, sizeof chunk);
    for (size_t i = 0; i < taken; i++) {
        int length = bp_frame_take(agent, chunk[i]);
        if (length != 0) {
            bp_handle(agent, length);
        }
    }
    return taken;
}

#endif
