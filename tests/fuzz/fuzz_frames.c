/* SPDX-License-Identifier: Apache-2.0 */
/* The fuzzer's bytes as a script: each step builds a frame with the right CRC, and most often with
 * the right session, so that what stands behind the frames' checks is reached. */

#include <string.h>

#include "boardprof/bp.h"
#include "firmware.h"
#include "fuzz_board.h"
#include "port_memory.h"

enum { FUZZ_LONGEST = 1024, FUZZ_WIRE = 4 * FUZZ_LONGEST };

static const uint8_t *fuzz_script;
static const uint8_t *fuzz_script_end;

/* Frames that are kept back, to be sent at once. */
static uint8_t fuzz_burst[8 * FUZZ_WIRE];
static size_t fuzz_burst_length;
static unsigned fuzz_burst_left;

static uint8_t fuzz_last[FUZZ_WIRE]; /* the last CALL */
static size_t fuzz_last_length;
static uint32_t fuzz_opener; /* the CALL that may have opened a channel */
static uint8_t fuzz_damage;  /* of the next frame: 0 none, else which bit is turned over */

static uint8_t fuzz_u8(void) {
    return fuzz_script != fuzz_script_end ? *fuzz_script++ : 0;
}

static uint32_t fuzz_u32(void) {
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) {
        value = value << 8 | fuzz_u8();
    }
    return value;
}

/* Some of these are the current ones, so that a byte is enough for what matters most. */
static uint16_t fuzz_session(void) {
    uint8_t choice = fuzz_u8();
    return choice < 0xf0 ? fuzz_heard.session : (uint16_t)(choice & 7u);
}

/* `base` most often; else a number near it, or any. */
static uint32_t fuzz_near(uint32_t base) {
    uint8_t choice = fuzz_u8();
    return choice < 0x80 ? base : choice == 0xff ? fuzz_u32() : base + (uint32_t)choice - 0xc0u;
}

/// Bodies ///

static uint8_t fuzz_body[FUZZ_LONGEST];
static size_t fuzz_length;

static void fuzz_put(uint8_t byte) {
    if (fuzz_length < sizeof fuzz_body) {
        fuzz_body[fuzz_length++] = byte;
    }
}

static void fuzz_put_be(uint8_t tag, uint32_t value) {
    fuzz_put(tag);
    for (int shift = 24; shift >= 0; shift -= 8) {
        fuzz_put((uint8_t)(value >> shift));
    }
}

static void fuzz_put_le(uint32_t value) {
    for (int shift = 0; shift < 32; shift += 8) {
        fuzz_put((uint8_t)(value >> shift));
    }
}

static void fuzz_copy(size_t count) {
    while (count-- != 0) {
        fuzz_put(fuzz_u8());
    }
}

static void fuzz_repeat(size_t count) {
    uint8_t byte = fuzz_u8();
    while (count-- != 0) {
        fuzz_put(byte);
    }
}

/* One argument: a byte that is what it says, a number that the board gave, or some bytes. */
static void fuzz_argument(void) {
    uint8_t tag = fuzz_u8();
    switch (tag) {
    case 0x80:
    case 0x81:
    case 0x82:
    case 0x83:
        fuzz_put_be(0xce, fuzz_heard.numbers[tag & 3u]);
        break;
    case 0x84:
        fuzz_put_be(0xce, fuzz_near(fuzz_heard.last_sequence));
        break;
    case 0xc4: {
        uint8_t length = fuzz_u8();
        fuzz_put(tag);
        fuzz_put(length);
        fuzz_repeat(length);
        break;
    }
    case 0xc5: {
        uint8_t high = fuzz_u8() & 3u;
        uint8_t low = fuzz_u8();
        fuzz_put(tag);
        fuzz_put(high);
        fuzz_put(low);
        fuzz_repeat((size_t)high << 8 | low);
        break;
    }
    case 0xca:
    case 0xce:
    case 0xd2:
        fuzz_put(tag);
        fuzz_copy(4);
        break;
    case 0xcb:
    case 0xcf:
    case 0xd3:
        fuzz_put(tag);
        fuzz_copy(8);
        break;
    case 0xcc:
    case 0xd0:
        fuzz_put(tag);
        fuzz_copy(1);
        break;
    case 0xcd:
    case 0xd1:
        fuzz_put(tag);
        fuzz_copy(2);
        break;
    default:
        fuzz_put(tag);
    }
}

static void fuzz_call_body(void) {
    uint8_t items = fuzz_u8();
    fuzz_put((uint8_t)(0x90u | (items & 15u)));
    for (unsigned i = 0; i < (items & 15u); i++) {
        fuzz_argument();
    }
    if (items >= 0xf0) { /* something behind */
        fuzz_argument();
    }
}

static void fuzz_put_number(uint32_t value) {
    fuzz_put_be(0xce, value);
}

/* An argument of a call that makes sense. */
static void fuzz_sensible(char meaning) {
    uint8_t byte = fuzz_u8();
    switch (meaning) {
    case 'h': /* a handle, or an open window */
        fuzz_put_number(fuzz_heard.numbers[byte >> 6]);
        break;
    case 'l': /* a length, short most often */
        fuzz_put_number(byte < 0xf0 ? byte : (byte & 15u) << 8 | fuzz_u8());
        break;
    case 's': /* something small: an offset, a section, how many rounds */
        fuzz_put_number(byte & 7u);
        break;
    case 'm': /* a mask of collectors, an index */
        fuzz_put_number(byte & 31u);
        break;
    case 'c': /* a channel */
        fuzz_put_number(byte < 0xc0 ? fuzz_opener : byte);
        break;
    case 'f':
        fuzz_put_number(fuzz_function((byte & 1u) != 0 ? "add" : "work"));
        break;
    default: /* bytes */
        fuzz_put(0xc4);
        fuzz_put(byte);
        fuzz_repeat(byte);
    }
}

static void fuzz_sensible_body(void) {
    static const struct {
        const char *name;
        const char *arguments;
    } calls[] = {
        {"bp.describe", "sm"},
        {"bp.measure", "fssssm"},
        {"bp.measure", "fssssmll"},
        {"bp.alloc", "l"},
        {"bp.alloc", "l"},
        {"bp.free", "h"},
        {"bp.read", "hsl"},
        {"bp.write", "hsb"},
        {"bp.download", "hsl"},
        {"bp.download", "hsl"},
        {"bp.upload", "hsl"},
        {"bp.upload", "hsl"},
        {"bp.stream", ""},
        {"bp.finish", "c"},
        {"bp.guard", "l"},
        {"bp.clock", ""},
        {"bp.interrupts", ""},
        {"count", ""},
        {"echo", "b"},
        {"fill", "l"},
        {"add", "ll"},
        {"trap", ""},
        {"work", ""},
        {"probe_a.start", ""},
        {"probe_a.stop", "h"},
        {"probe_b.init", ""},
    };
    unsigned which = fuzz_u8() % (sizeof calls / sizeof calls[0]);
    const char *arguments = calls[which].arguments;
    if (strcmp(calls[which].name, "bp.download") == 0 ||
        strcmp(calls[which].name, "bp.upload") == 0 ||
        strcmp(calls[which].name, "bp.stream") == 0) {
        fuzz_opener = fuzz_heard.last_sequence + 1;
        fuzz_heard.data_end = fuzz_heard.wanted = 0;
    }
    fuzz_put((uint8_t)(0x91u + strlen(arguments)));
    fuzz_put_number(fuzz_function(calls[which].name));
    while (*arguments != '\0') {
        fuzz_sensible(*arguments++);
    }
}

/// Steps ///

static void fuzz_emit(const uint8_t *wire, size_t length) {
    if (fuzz_burst_left == 0) {
        fuzz_send(wire, length, (length & 1u) != 0);
        return;
    }
    memcpy(fuzz_burst + fuzz_burst_length, wire, length);
    fuzz_burst_length += length;
    if (--fuzz_burst_left == 0) {
        fuzz_send_burst(fuzz_burst, fuzz_burst_length);
        fuzz_burst_length = 0;
    }
}

static void fuzz_frame(uint8_t first, uint16_t session, uint32_t sequence) {
    uint8_t wire[FUZZ_WIRE];
    size_t length = fuzz_encode(wire, first, session, sequence, fuzz_body, fuzz_length);
    if (first == (0x10 | BP_KIND_CALL)) {
        memcpy(fuzz_last, wire, length);
        fuzz_last_length = length;
    }
    if (fuzz_damage != 0) {
        wire[fuzz_damage % length] ^= (uint8_t)(1u << fuzz_damage % 8);
        fuzz_damage = 0;
    }
    fuzz_emit(wire, length);
}

static void fuzz_hello(void) {
    static const uint8_t versions[4][2] = {{1, 1}, {0, 255}, {0, 0}, {2, 3}};
    uint8_t how = fuzz_u8();
    uint16_t session = (how & 0x80u) != 0 ? fuzz_heard.session : (uint16_t)(how >> 4);
    fuzz_put_le(BP_HELLO_MAGIC);
    fuzz_put(versions[how & 3u][0]);
    fuzz_put(versions[how & 3u][1]);
    fuzz_put(0xff);
    fuzz_put(0xff);
    uint32_t nonce = fuzz_near(fuzz_heard.nonce);
    fuzz_put_le(nonce);
    fuzz_copy((how & 4u) != 0 ? 33 : 0); /* a claim */
    fuzz_length -= (how & 8u) != 0;
    fuzz_frame((uint8_t)((how & 1u) << 4 | BP_KIND_HELLO), session, nonce);
}

static void fuzz_channel_frame(uint8_t kind) {
    uint32_t sequence = fuzz_near(kind == BP_KIND_CANCEL ? fuzz_heard.last_sequence : fuzz_opener);
    if (kind == BP_KIND_DATA) {
        fuzz_put_le(fuzz_near(fuzz_heard.wanted));
        fuzz_repeat(fuzz_u8());
    } else if (kind == BP_KIND_ACK) {
        fuzz_put_le(fuzz_near(fuzz_heard.data_end));
        uint8_t credit = fuzz_u8();
        fuzz_put_le(credit < 0xf0 ? (uint32_t)credit << 2 : UINT32_MAX);
        fuzz_put(fuzz_u8());
    }
    fuzz_frame((uint8_t)(0x10u | kind), fuzz_heard.session, sequence);
}

/* What a test may set on the board: clocks, checks that fail, functions that trap. */
static void fuzz_board_changes(void) {
    uint8_t what = fuzz_u8();
    switch (what & 3u) {
    case 0:
#if BP_CFG_STREAM
        bp_stream_write(fuzz_last, what >> 2);
#endif
        test_ticks += (uint64_t)fuzz_u32();
        break;
    case 1:
        test_ticks_step = (uint64_t)fuzz_u8() * 64;
        break;
    case 2:
        test_check_after = fuzz_u8();
        break;
    default:
#if BP_CFG_GUARD
        test_trap_at = "fpucAab"[fuzz_u8() % 7];
        test_trap_after = (uint32_t)(what >> 2) % 8 + 1;
        test_trap_cause = (uint8_t)(fuzz_u8() % 9 + 1);
        test_trap_address = fuzz_u32();
#endif
        break;
    }
}

static void fuzz_step(void) {
    uint8_t step = fuzz_u8();
    fuzz_length = 0;
    switch (step & 15u) {
    case 0:
        fuzz_hello();
        break;
    case 1:
    case 2:
    case 3: /* the next CALL */
        fuzz_sensible_body();
        fuzz_length -= step >= 0xc0; /* cut off within its last argument */
        fuzz_frame(0x10 | BP_KIND_CALL, fuzz_heard.session, fuzz_heard.last_sequence + 1);
        break;
    case 4: /* with any arguments */
        fuzz_call_body();
        fuzz_frame(0x10 | BP_KIND_CALL, fuzz_session(), fuzz_heard.last_sequence + 1);
        break;
    case 5: /* the last one again */
        fuzz_emit(fuzz_last, fuzz_last_length);
        break;
    case 6: /* one out of turn */
        fuzz_call_body();
        fuzz_frame(0x10 | BP_KIND_CALL, fuzz_session(), fuzz_near(fuzz_heard.last_sequence));
        break;
    case 7: /* one whose body is no msgpack */
        fuzz_copy(fuzz_u8());
        fuzz_frame(0x10 | BP_KIND_CALL, fuzz_session(), fuzz_heard.last_sequence + 1);
        break;
    case 8:
        fuzz_channel_frame(BP_KIND_DATA);
        break;
    case 9:
    case 10:
        fuzz_channel_frame(BP_KIND_ACK);
        break;
    case 11:
        fuzz_channel_frame(BP_KIND_CANCEL);
        break;
    case 12:
        fuzz_damage = fuzz_u8();
        break;
    case 13: /* the next few at once */
        fuzz_burst_left = fuzz_burst_left == 0 ? 2 + step / 16 % 4 : fuzz_burst_left;
        break;
    case 14:
        fuzz_board_changes();
        break;
    default: { /* any frame */
        uint8_t first = fuzz_u8();
        fuzz_copy(step >> 4);
        fuzz_frame(first, fuzz_session(), fuzz_near(fuzz_heard.last_sequence));
        break;
    }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_script = data;
    fuzz_script_end = data + size;
    fuzz_burst_length = fuzz_burst_left = 0;
    fuzz_last_length = 0;
    fuzz_damage = 0;
    fuzz_opener = 0;
    fuzz_boot();
    while (fuzz_script != fuzz_script_end) {
        fuzz_step();
    }
    fuzz_send_burst(fuzz_burst, fuzz_burst_length);
    return 0;
}
