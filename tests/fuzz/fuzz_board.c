/* SPDX-License-Identifier: Apache-2.0 */
/* The agent, what it was sent, and a model of the session that says what it must answer. */

#include "fuzz_board.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boardprof/bp.h"
#include "bp_internal.h"
#include "firmware.h"
#include "fuzz_oracle.h"
#include "port_memory.h"

enum { FUZZ_LINE = 1 << 20, FUZZ_MOST_ROUNDS = 100, FUZZ_BATCH = 512 };

#define FUZZ_CHECK(condition)                                               \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                        \
        }                                                                   \
    } while (0)

fuzz_heard_t fuzz_heard;

/* Received by the board and not yet ended by a delimiter. */
static uint8_t fuzz_pending[1u << 16];
static size_t fuzz_pending_length;

/* The reply to the CALL that was taken last, as it stood on the line; 0: none, or not known. */
static uint8_t fuzz_reply[BP_CFG_MTU];
static size_t fuzz_reply_length;
static bool fuzz_reply_known;

static bool fuzz_accounts; /* all CALLs of this session were seen one by one: no burst among them */
static uint32_t fuzz_boot_id;
static uint32_t fuzz_welcomed[2]; /* boot_id and last_sequence of the last WELCOME */

/* What came back from one piece, by kind; `reply` is the last RESULT or ERROR. */
typedef struct {
    unsigned count[16];
    fuzz_piece_t answer; /* the last that is neither PROGRESS, DATA nor ACK */
    uint8_t body[BP_CFG_MTU];
    uint8_t reply[BP_CFG_MTU];
    size_t reply_length;
    bool foreign; /* PROGRESS, DATA or ACK of no call of this session */
} fuzz_answers_t;

static uint32_t fuzz_be(const uint8_t *bytes, size_t count) {
    uint32_t value = 0;
    while (count-- != 0) {
        value = value << 8 | *bytes++;
    }
    return value;
}

/// Calls that would not end ///

/* bp.measure with so many rounds, or calls in a round, that it would look like a hang. */
static bool fuzz_takes_for_ever(const fuzz_piece_t *piece) {
    uint32_t numbers[6]; /* id, function, flags, warmup, repeat, number */
    if (!piece->valid || piece->first != 0x13 || piece->length == 0) {
        return false;
    }
    const uint8_t *at = piece->body + 1;
    const uint8_t *end = piece->body + piece->length;
    for (int i = 0; i < 6; i++) {
        if (!fuzz_number(&at, end, &numbers[i])) {
            return false;
        }
    }
    return numbers[0] == 1 && (numbers[3] > FUZZ_MOST_ROUNDS || numbers[5] > FUZZ_MOST_ROUNDS);
}

/// What the board says ///

enum { FUZZ_FUNCTIONS = 64, FUZZ_NAME = 64 };

static char fuzz_names[FUZZ_FUNCTIONS][FUZZ_NAME];
static unsigned fuzz_named;

uint32_t fuzz_function(const char *name) {
    uint32_t id = 0;
    while (id < fuzz_named && strcmp(fuzz_names[id], name) != 0) {
        id++;
    }
    return id;
}

/* An entry of the dictionary's section of functions: an array whose first item is the name. */
static void fuzz_hear_name(const fuzz_piece_t *piece) {
    const uint8_t *body = piece->body;
    FUZZ_CHECK(piece->length > 3 && body[0] == 0x93 && body[1] == 0xd9 && body[2] < FUZZ_NAME);
    memcpy(fuzz_names[fuzz_named++], body + 3, body[2]);
}

static void fuzz_hear(const fuzz_piece_t *piece) {
    uint8_t kind = piece->first & 15u;
    const uint8_t *body = piece->body;
    if (kind == BP_KIND_DATA || kind == BP_KIND_ACK) {
        FUZZ_CHECK(piece->length >= (kind == BP_KIND_DATA ? 5u : 9u));
        uint32_t offset = bp_get_u32(body);
        uint32_t reach = kind == BP_KIND_ACK ? offset : offset + (uint32_t)piece->length - 4;
        FUZZ_CHECK(!fuzz_accounts || fuzz_is_within_channel(piece->sequence, reach));
        fuzz_heard.wanted = kind == BP_KIND_ACK ? offset : fuzz_heard.wanted;
        fuzz_heard.data_end =
            kind == BP_KIND_DATA ? offset + (uint32_t)piece->length - 4 : fuzz_heard.data_end;
    }
    if (kind == BP_KIND_WELCOME && piece->length >= 20) {
        fuzz_welcomed[0] = bp_get_u32(body + 12);
        fuzz_welcomed[1] = bp_get_u32(body + 16);
    }
    if (kind == BP_KIND_RESULT && (body[0] < 0x80 || body[0] == 0xce)) {
        memmove(fuzz_heard.numbers + 1, fuzz_heard.numbers, sizeof fuzz_heard.numbers - 4);
        fuzz_heard.numbers[0] = body[0] < 0x80 ? body[0] : fuzz_be(body + 1, 4);
    }
}

/* Take all that the board has sent; it must be whole frames of this version that a board may
 * send, none longer than the MTU, and nothing else. */
static void fuzz_take(fuzz_answers_t *answers) {
    static uint8_t out[FUZZ_LINE];
    static uint8_t raw[BP_CFG_MTU];
    const unsigned allowed = 1u << BP_KIND_WELCOME | 1u << BP_KIND_RESULT | 1u << BP_KIND_ERROR |
                             1u << BP_KIND_PROGRESS | 1u << BP_KIND_NAK | 1u << BP_KIND_NO_SESSION |
                             1u << BP_KIND_DATA | 1u << BP_KIND_ACK;
    size_t length = test_take(out, sizeof out);
    FUZZ_CHECK(length == 0 || (out[0] == 0 && out[length - 1] == 0));
    for (size_t at = 0; at < length;) {
        const uint8_t *begin = out + at + 1;
        const uint8_t *end = memchr(begin, 0, length - at - 1);
        if (end == NULL) {
            break;
        }
        size_t encoded = (size_t)(end - begin);
        at += encoded + 1;
        if (encoded == 0) {
            continue;
        }
        FUZZ_CHECK(encoded + 2 <= BP_CFG_MTU);
        fuzz_piece_t piece = fuzz_decode(raw, begin, encoded);
        uint8_t kind = piece.first & 15u;
        FUZZ_CHECK(piece.valid && piece.first >> 4 == 1 && (allowed >> kind & 1u) != 0);
        answers->count[kind]++;
        fuzz_hear(&piece);
        if (kind == BP_KIND_PROGRESS || kind == BP_KIND_DATA || kind == BP_KIND_ACK) {
            /* What a stream still had may come in front of the answer to a HELLO. */
            bool before = piece.session == fuzz_heard.session &&
                          fuzz_heard.last_sequence - piece.sequence <= 0xffffff;
            bool now = piece.session == bp_agent.session &&
                       bp_agent.last_sequence - piece.sequence <= 0xffffff;
            answers->foreign |= !before && !now;
            continue;
        }
        answers->answer = piece;
        memcpy(answers->body, piece.body, piece.length);
        answers->answer.body = answers->body;
        if (kind == BP_KIND_RESULT || kind == BP_KIND_ERROR) {
            answers->reply_length = encoded;
            memcpy(answers->reply, begin, encoded);
        }
    }
}

static void fuzz_run(void) {
    for (unsigned polls = 0; bp_poll() != 0; polls++) {
        FUZZ_CHECK(polls < FUZZ_LINE); /* it comes to rest */
    }
}

/// The model ///

static unsigned fuzz_replies(const fuzz_answers_t *answers) {
    return answers->count[BP_KIND_RESULT] + answers->count[BP_KIND_ERROR];
}

/* Frames that answer something. */
static unsigned fuzz_said(const fuzz_answers_t *answers) {
    return fuzz_replies(answers) + answers->count[BP_KIND_WELCOME] + answers->count[BP_KIND_NAK] +
           answers->count[BP_KIND_NO_SESSION];
}

static void fuzz_expect(const fuzz_answers_t *answers, uint8_t kind, uint16_t session,
                        uint32_t sequence) {
    FUZZ_CHECK(fuzz_said(answers) == 1 && answers->count[kind] == 1);
    FUZZ_CHECK(answers->answer.session == session && answers->answer.sequence == sequence);
}

static void fuzz_check_hello(const fuzz_piece_t *piece, const fuzz_answers_t *answers) {
    static const uint8_t magic[4] = {0x42, 0x50, 0x52, 0x46};
    if (piece->length < 12 || memcmp(piece->body, magic, 4) != 0 || piece->session == 0) {
        FUZZ_CHECK(fuzz_said(answers) == 0);
        return;
    }
    /* The number of a HELLO is its nonce (SPEC.md 3.1). */
    fuzz_expect(answers, BP_KIND_WELCOME, piece->session, piece->sequence);
    FUZZ_CHECK(answers->answer.length >= 32);
    bool is_new = piece->session != fuzz_heard.session || piece->sequence != fuzz_heard.nonce;
    if (piece->body[4] <= 1 && piece->body[5] >= 1 && is_new) {
        fuzz_heard.session = piece->session;
        fuzz_heard.nonce = piece->sequence;
        fuzz_heard.last_sequence += fuzz_welcomed[0] << 16;
        fuzz_reply_length = 0;
        fuzz_reply_known = fuzz_accounts = true;
        fuzz_forget_blocks();
        FUZZ_CHECK(fuzz_welcomed[0] != 0 &&
                   (fuzz_boot_id == 0 || fuzz_boot_id == fuzz_welcomed[0]));
        fuzz_boot_id = fuzz_welcomed[0];
    }
    FUZZ_CHECK(fuzz_welcomed[1] == fuzz_heard.last_sequence);
}

static void fuzz_check_call(const fuzz_piece_t *piece, const fuzz_answers_t *answers,
                            bool has_run) {
    uint32_t ahead = piece->sequence - fuzz_heard.last_sequence;
    if (piece->session == 0 || piece->session != fuzz_heard.session || ahead > 0xffff) {
        FUZZ_CHECK(!has_run);
        fuzz_expect(answers, BP_KIND_NO_SESSION, piece->session, piece->sequence);
        return;
    }
    if (ahead != 0) {
        fuzz_heard.last_sequence = piece->sequence;
        FUZZ_CHECK(fuzz_said(answers) == 1 && fuzz_replies(answers) == 1);
        FUZZ_CHECK(answers->answer.session == piece->session &&
                   answers->answer.sequence == piece->sequence);
        FUZZ_CHECK(!fuzz_accounts || answers->count[BP_KIND_RESULT] == 0 ||
                   fuzz_follows(piece, &answers->answer));
        fuzz_reply_length = answers->reply_length;
        memcpy(fuzz_reply, answers->reply, answers->reply_length);
        fuzz_reply_known = true;
        return;
    }
    FUZZ_CHECK(!has_run && fuzz_said(answers) == fuzz_replies(answers));
    if (fuzz_reply_known) {
        FUZZ_CHECK(fuzz_said(answers) == (fuzz_reply_length != 0));
        FUZZ_CHECK(answers->reply_length == fuzz_reply_length &&
                   memcmp(answers->reply, fuzz_reply, fuzz_reply_length) == 0);
    }
}

static void fuzz_check(const fuzz_piece_t *piece, const fuzz_answers_t *answers, bool has_run) {
    bool is_call = piece->valid && piece->first == 0x13;
    FUZZ_CHECK(!answers->foreign);
    FUZZ_CHECK(is_call || (!has_run && answers->count[BP_KIND_PROGRESS] == 0));
    if (piece->empty) {
        FUZZ_CHECK(fuzz_said(answers) == 0);
    } else if (!piece->valid || piece->raw_length > BP_FRAME_MAX) {
        FUZZ_CHECK(!has_run);
        fuzz_expect(answers, BP_KIND_NAK, fuzz_heard.session, fuzz_heard.last_sequence);
    } else if ((piece->first & 15u) == BP_KIND_HELLO) {
        fuzz_check_hello(piece, answers);
    } else if (is_call) {
        fuzz_check_call(piece, answers, has_run);
    } else {
        FUZZ_CHECK(fuzz_said(answers) == 0);
    }
    FUZZ_CHECK(bp_agent.session == fuzz_heard.session &&
               bp_agent.last_sequence == fuzz_heard.last_sequence);
}

/// What the board is sent ///

static void fuzz_begin(void) {
    /* A restart within the process: what is static must not remember the input before. */
    test_port_reset();
    test_firmware_reset();
    bp_arena_reset(); /* and with the blocks the channel */
    bp_window_forget(NULL);
    bp_init();
    memset(&fuzz_heard, 0, sizeof fuzz_heard);
    fuzz_pending_length = fuzz_reply_length = 0;
    fuzz_reply_known = true;
    fuzz_boot_id = 0;
    uint8_t hello[64];
    static const uint8_t body[12] = {0x42, 0x50, 0x52, 0x46, 1, 1, 0xff, 0xff};
    fuzz_send(hello, fuzz_encode(hello, 0x11, 0xffff, 0, body, sizeof body), false);
}

/* Ask for the functions' names, once. */
static void fuzz_ask_names(void) {
    fuzz_answers_t answers;
    do {
        uint8_t wire[64];
        const uint8_t body[4] = {0x93, 0, 1, (uint8_t)fuzz_named};
        memset(&answers, 0, sizeof answers);
        FUZZ_CHECK(fuzz_named < FUZZ_FUNCTIONS);
        test_feed(wire,
                  fuzz_encode(wire, 0x13, 0xffff, ++fuzz_heard.last_sequence, body, sizeof body));
        fuzz_run();
        fuzz_take(&answers);
        FUZZ_CHECK(answers.count[BP_KIND_RESULT] == 1);
        if (answers.answer.length != 1) {
            fuzz_hear_name(&answers.answer);
        }
    } while (answers.answer.length != 1); /* nil behind the last one */
}

void fuzz_boot(void) {
    static bool has_names;
    if (!has_names) {
        has_names = true;
        fuzz_begin();
        fuzz_ask_names();
    }
    fuzz_begin();
}

static uint32_t fuzz_runs(void) {
    return test_counted + test_worked;
}

/* One piece with its delimiter. */
static void fuzz_send_piece(const uint8_t *bytes, size_t length, bool split) {
    static uint8_t raw[sizeof fuzz_pending];
    fuzz_answers_t answers;
    memset(&answers, 0, sizeof answers);
    fuzz_piece_t piece = fuzz_decode(raw, bytes, length - 1);
    if (fuzz_takes_for_ever(&piece)) {
        return;
    }
    uint32_t runs = fuzz_runs();
    if (split) {
        test_feed(bytes, length / 2);
        fuzz_run();
    }
    test_feed(bytes + (split ? length / 2 : 0), length - (split ? length / 2 : 0));
    fuzz_run();
    fuzz_take(&answers);
    fuzz_check(&piece, &answers, fuzz_runs() != runs);
}

/* Append to what is pending; returns the bytes taken, up to the first delimiter. */
static size_t fuzz_collect(const uint8_t *bytes, size_t length, bool *whole) {
    const uint8_t *end = memchr(bytes, 0, length);
    size_t taken = end != NULL ? (size_t)(end - bytes) + 1 : length;
    *whole = end != NULL;
    if (taken > sizeof fuzz_pending - fuzz_pending_length) {
        fuzz_pending_length = 0; /* longer than any MTU */
    }
    memcpy(fuzz_pending + fuzz_pending_length, bytes, taken);
    fuzz_pending_length += taken;
    return taken;
}

void fuzz_send(const uint8_t *bytes, size_t length, bool split) {
    while (length != 0) {
        bool whole;
        size_t taken = fuzz_collect(bytes, length, &whole);
        bytes += taken;
        length -= taken;
        if (whole) {
            fuzz_send_piece(fuzz_pending, fuzz_pending_length, split);
            fuzz_pending_length = 0;
        }
    }
}

static unsigned fuzz_burst_calls; /* valid CALLs among what was fed */
static unsigned fuzz_burst_other; /* other pieces that may be answered */

static void fuzz_end_batch(void) {
    fuzz_answers_t answers;
    memset(&answers, 0, sizeof answers);
    fuzz_run();
    fuzz_take(&answers);
    FUZZ_CHECK(fuzz_replies(&answers) <= fuzz_burst_calls);
    FUZZ_CHECK(fuzz_said(&answers) <= fuzz_burst_calls + fuzz_burst_other);
    fuzz_burst_calls = fuzz_burst_other = 0;
}

void fuzz_send_burst(const uint8_t *bytes, size_t length) {
    if (length == 0) {
        return;
    }
    static uint8_t raw[sizeof fuzz_pending];
    size_t batch = 0;
    while (length != 0) {
        bool whole;
        size_t taken = fuzz_collect(bytes, length, &whole);
        bytes += taken;
        length -= taken;
        if (!whole) {
            continue;
        }
        fuzz_piece_t piece = fuzz_decode(raw, fuzz_pending, fuzz_pending_length - 1);
        if (!fuzz_takes_for_ever(&piece)) {
            bool is_call = piece.valid && piece.first == 0x13;
            fuzz_burst_calls += is_call;
            fuzz_burst_other += !is_call && !piece.empty;
            test_feed(fuzz_pending, fuzz_pending_length);
            batch += fuzz_pending_length;
        }
        fuzz_pending_length = 0;
        if (batch >= FUZZ_BATCH) {
            fuzz_end_batch();
            batch = 0;
        }
    }
    fuzz_end_batch();
    fuzz_heard.session = bp_agent.session;
    fuzz_heard.nonce = bp_agent.nonce;
    fuzz_heard.last_sequence = bp_agent.last_sequence;
    fuzz_reply_known = fuzz_accounts = false;
}
