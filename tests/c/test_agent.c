/* SPDX-License-Identifier: Apache-2.0 */
/* The agent under the compiler's sanitizers: whatever comes over the line, it reads and writes its
 * own memory only, answers, and does what it is told. Usage: test_agent [SEED] */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boardprof/bp.h"
#include "boardprof/bp_frame.h"
#include "bp_internal.h"
#include "firmware.h"
#include "port_memory.h"

/* Ids of the firmware's functions behind the built-in ones. */
enum {
    TEST_DOWNLOAD = 6, /* behind the arena's */
    TEST_UPLOAD,
    TEST_FINISH,
    TEST_STREAM,
    TEST_FIRST = 2 + (BP_CFG_ARENA ? 4 : 0) + (BP_CFG_BULK ? 3 : 0) + (BP_CFG_STREAM ? 1 : 0) +
        (BP_CFG_CLOCK ? 1 : 0) + (BP_CFG_GUARD ? 1 : 0) + (BP_CFG_STACK ? 1 : 0) +
        (BP_CFG_INTERRUPTS ? 1 : 0) +
        (BP_CFG_OPEN_WINDOWS ? 3 * (BP_CFG_INTERRUPTS > 1 ? 5 : 4) : 0),
    TEST_COUNT = TEST_FIRST,
    TEST_ECHO,
    TEST_FILL,
    TEST_REFUSE,
    TEST_WORK,
    TEST_ADD,
    TEST_HALF,
    TEST_END,
};

enum { TEST_SESSION = 0x1234, TEST_LONGEST = 100000 };

#define TEST_CHECK(condition)                                               \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

static uint32_t test_sequence;
static uint32_t test_calls;
static uint64_t test_random_state = 1;

/* A xorshift generator (Marsaglia 2003): the same numbers on every machine. */
static uint32_t test_random(void) {
    test_random_state ^= test_random_state << 13;
    test_random_state ^= test_random_state >> 7;
    test_random_state ^= test_random_state << 17;
    return (uint32_t)(test_random_state >> 16);
}

static uint32_t test_below(uint32_t limit) {
    return test_random() % limit;
}

/// Frames ///

/* The last frame that the agent sent. */
typedef struct {
    uint8_t kind; /* 0: none came */
    uint16_t session;
    uint32_t sequence;
    const uint8_t *body;
    size_t length;
    int frames; /* how many came, this one included */
} test_answer_t;

/* Looks at each DATA or ACK that the agent sends; they are no answers. */
static void test_overhear(uint8_t kind, const uint8_t *body, size_t length);

/* Give the agent bytes from a block of just their size, let it work, read what it says. */
static test_answer_t test_send(const uint8_t *bytes, size_t length) {
    static bp_receiver_t decoder;
    static uint8_t out[1u << 20];
    static uint8_t body[BP_FRAME_MAX];
    test_answer_t answer = {0};
    test_feed(bytes, length);
    while (bp_poll() != 0) {
    }
    size_t sent = test_take(out, sizeof out);
    for (size_t i = 0; i < sent; i++) {
        int taken = bp_frame_take(&decoder, out[i]);
        TEST_CHECK(taken == 0 || taken >= 11);
        if (taken > 0) {
            size_t checked = (size_t)taken - 4;
            TEST_CHECK(bp_crc32(0, decoder.frame, checked) == bp_get_u32(decoder.frame + checked));
            uint8_t kind = decoder.frame[0] & 15u;
            if (kind == BP_KIND_DATA || kind == BP_KIND_ACK) {
                test_overhear(kind, decoder.frame + 7, checked - 7);
                continue;
            }
            answer.kind = kind;
            answer.session = bp_get_u16(decoder.frame + 1);
            answer.sequence = bp_get_u32(decoder.frame + 3);
            answer.length = checked - 7;
            memcpy(body, decoder.frame + 7, answer.length);
            answer.body = body;
            answer.frames++;
        }
    }
    return answer;
}

/* Encode a frame into a block of just its size; the caller frees it. */
static uint8_t *test_encode(size_t *length, uint8_t kind, const uint8_t *body, size_t body_length) {
    size_t lead = BP_FRAME_LEAD(BP_FRAME_RAW(body_length));
    uint8_t *wire = malloc(BP_FRAME_BUFFER(body_length));
    TEST_CHECK(wire != NULL);
    if (body_length != 0) {
        memcpy(wire + lead + BP_FRAME_HEADER, body, body_length);
    }
    *length = bp_frame_seal(wire, lead, body_length, kind, TEST_SESSION, test_sequence);
    TEST_CHECK(*length <= BP_FRAME_BUFFER(body_length));
    return wire;
}

static test_answer_t test_exchange(uint8_t kind, const uint8_t *body, size_t body_length) {
    size_t length;
    uint8_t *wire = test_encode(&length, kind, body, body_length);
    test_answer_t answer = test_send(wire, length);
    free(wire);
    return answer;
}

static void test_hello(uint16_t session) {
    uint8_t body[BP_HELLO_LEN];
    const bp_hello_t hello = {
        .magic = BP_HELLO_MAGIC, .version_min = 1, .version_max = 1, .mtu = 65535, .nonce = 7};
    bp_hello_put(body, &hello);
    uint8_t wire[BP_FRAME_BUFFER(BP_HELLO_LEN)];
    size_t lead = BP_FRAME_LEAD(BP_FRAME_RAW(BP_HELLO_LEN));
    memcpy(wire + lead + BP_FRAME_HEADER, body, sizeof body);
    size_t length = bp_frame_seal(wire, lead, sizeof body, BP_KIND_HELLO, session, 0);
    test_answer_t answer = test_send(wire, length);
    TEST_CHECK(answer.kind == BP_KIND_WELCOME && answer.length == BP_WELCOME_LEN);
    test_sequence = bp_get_u32(answer.body + 16); /* its last_sequence */
}

/// Calls ///

/* A CALL's body in the making. */
static uint8_t test_body[TEST_LONGEST];
static bp_call_t test_writer;

static void test_begin(uint32_t function, uint8_t arguments) {
    test_writer = (bp_call_t){.out = test_body, .out_end = test_body + sizeof test_body};
    bp_ret_array(&test_writer, (uint8_t)(arguments + 1));
    bp_ret_uint(&test_writer, function);
}

static test_answer_t test_call(void) {
    TEST_CHECK(test_writer.err == 0);
    test_sequence++;
    test_calls++;
    test_answer_t answer =
        test_exchange(BP_KIND_CALL, test_body, (size_t)(test_writer.out - test_body));
    TEST_CHECK(answer.sequence ==
               (answer.kind == BP_KIND_NAK ? bp_agent.last_sequence : test_sequence));
    return answer;
}

static test_answer_t test_call_numbers(uint32_t function, const uint32_t *numbers, uint8_t count) {
    test_begin(function, count);
    for (uint8_t i = 0; i < count; i++) {
        bp_ret_uint(&test_writer, numbers[i]);
    }
    return test_call();
}

/* The code of an ERROR, 0 of a RESULT. */
static int test_code(const test_answer_t *answer) {
    TEST_CHECK(answer->kind == BP_KIND_RESULT || answer->kind == BP_KIND_ERROR);
    return answer->kind == BP_KIND_ERROR ? -(int)answer->body[1] : 0;
}

/// Tests ///

static void test_every_length_of_a_reply(void) {
    for (uint32_t length = 0; length < BP_FRAME_MAX + 8u; length++) {
        test_answer_t answer = test_call_numbers(TEST_FILL, &length, 1);
        bool fits = length + 3 + 11 <= BP_FRAME_MAX;
        TEST_CHECK(test_code(&answer) == (fits ? 0 : BP_ERR_REPLY_TOO_BIG));
        TEST_CHECK(!fits || answer.length == length + 3);
    }
}

static void test_every_length_of_a_call(void) {
    static uint8_t bytes[2 * BP_CFG_MTU];
    memset(bytes, 0xa5, sizeof bytes);
    for (size_t length = 0; length < sizeof bytes; length++) {
        test_begin(TEST_ECHO, 1);
        bp_ret_bytes(&test_writer, bytes, length);
        test_answer_t answer = test_call();
        bool fits = length + 5 + 11 <= BP_FRAME_MAX; /* array, id, bin head of three bytes */
        TEST_CHECK(answer.kind == (fits ? BP_KIND_RESULT : BP_KIND_NAK));
        TEST_CHECK(!fits || memcmp(answer.body + 3, bytes, length) == 0);
    }
}

static void test_no_flipped_bit_runs_anything(void) {
    size_t length;
    test_begin(TEST_COUNT, 0);
    test_sequence++;
    uint8_t *wire = test_encode(&length, BP_KIND_CALL, test_body, 2);
    uint32_t before = test_counted;
    for (size_t bit = 0; bit < 8 * length; bit++) {
        wire[bit / 8] ^= (uint8_t)(1u << bit % 8);
        test_send(wire, length);
        test_send((const uint8_t *)"", 1);
        wire[bit / 8] ^= (uint8_t)(1u << bit % 8);
        TEST_CHECK(test_counted == before);
    }
    TEST_CHECK(test_send(wire, length).kind == BP_KIND_RESULT && test_counted == before + 1);
    TEST_CHECK(test_send(wire, length).kind == BP_KIND_RESULT && test_counted == before + 1);
    free(wire);
}

static void test_the_dictionary_matches_its_hash(void) {
    uint32_t crc = 0;
    for (uint32_t section = 0; section < 4; section++) {
        test_answer_t answer;
        uint32_t index = 0;
        do {
            const uint32_t numbers[2] = {section, index++};
            answer = test_call_numbers(0, numbers, 2);
            if (test_code(&answer) != 0) {
                TEST_CHECK(BP_CFG_MTU < 128); /* an entry may be longer than so short a frame */
                return;
            }
            crc = bp_crc32(crc, answer.body, answer.length);
        } while (answer.body[0] != 0xc0);
    }
    TEST_CHECK(crc == bp_agent.dictionary_hash);
}

static void test_noise(void) {
    uint8_t bytes[700];
    for (int round = 0; round < 2000; round++) {
        size_t length = test_below(sizeof bytes);
        for (size_t i = 0; i < length; i++) {
            /* Zeros and small codes often, so that pieces come close to frames. */
            bytes[i] = (uint8_t)(test_below(4) == 0 ? test_below(16) : test_random());
        }
        test_send(bytes, length);
    }
    test_send((const uint8_t *)"", 1);
}

/* Frames whose CRC is right and whose bodies are anything. */
static void test_random_bodies(void) {
    for (int round = 0; round < 20000; round++) {
        uint8_t body[48]; /* fits the shortest frame */
        size_t length = test_below(sizeof body);
        for (size_t i = 0; i < length; i++) {
            body[i] = (uint8_t)test_random();
        }
        if (length >= 2 && test_below(4) != 0) {
            body[0] = (uint8_t)(0x90 | test_below(16));
            body[1] = (uint8_t)test_below(TEST_END + 1);
        }
        if (length >= 2 && body[1] == 1) {
            body[1] = 0; /* a random measurement may take for ever */
        }
        test_sequence++;
        test_answer_t answer = test_exchange(BP_KIND_CALL, body, length);
        TEST_CHECK(answer.frames == 1 && answer.sequence == test_sequence);
        test_code(&answer);
    }
}

/* Values at the edges of everything. */
static uint32_t test_edge(void) {
    static const uint32_t edges[] = {
        0,    1,    2,    3,      7,       8,       127,        128,        255,        256,
        4095, 4096, 4097, 0xffff, 0x10000, 0x10001, 0x7fffffff, 0x80000000, 0xffff0000, 0xffffffff};
    return edges[test_below(sizeof edges / sizeof edges[0])];
}

static void test_edges_as_arguments(void) {
    for (int round = 0; round < 20000; round++) {
        uint8_t count = (uint8_t)test_below(5);
        uint32_t function = test_below(TEST_END + 1);
        test_begin(function == 1 ? 0 : function, count);
        for (uint8_t i = 0; i < count; i++) {
            switch (test_below(8)) {
            case 0:
                bp_ret_bytes(&test_writer, test_body, test_below(64));
                break;
            case 1:
                bp_ret_i64(&test_writer, (int64_t)((uint64_t)test_edge() << 32 | test_edge()));
                break;
            case 2:
                bp_ret_bool(&test_writer, true);
                break;
            default:
                bp_ret_uint(&test_writer, test_edge());
                break;
            }
        }
        if ((size_t)(test_writer.out - test_body) + 11 <= BP_FRAME_MAX) {
            test_answer_t answer = test_call();
            test_code(&answer);
        }
    }
}

/* Everything about a measurement at its edges, but few rounds. */
static void test_measurements(void) {
    static const uint32_t warmups[] = {0, 1, 3, 0x80000000, 0xffffffff};
    static const uint32_t repeats[] = {0, 1, 2, 300, 0xffffffff};
    for (int round = 0; round < 5000; round++) {
        const uint32_t numbers[] = {TEST_WORK + test_below(3),
                                    test_below(3),
                                    warmups[test_below(5)],
                                    repeats[test_below(5)],
                                    test_below(3),
                                    test_below(3) == 0 ? test_edge() : test_below(16),
                                    test_edge(),
                                    test_edge()};
        test_check_after = test_below(4) == 0 ? (int)(test_worked + test_below(4)) : 0;
        test_answer_t answer = test_call_numbers(1, numbers, (uint8_t)(5 + test_below(4)));
        test_code(&answer);
    }
    test_check_after = 0;
}

#if BP_CFG_ARENA
enum { TEST_BLOCKS = BP_CFG_HANDLES, TEST_ALLOC = 2, TEST_FREE, TEST_READ, TEST_WRITE };

/* The arena as it should be. */
typedef struct {
    uint32_t handle;
    uint32_t length; /* 0: none */
    uint8_t bytes[256];
} test_block_t;

static uint32_t test_number(const test_answer_t *answer) {
    const uint8_t *b = answer->body;
    return b[0] < 0x80 ? b[0]
                       : (uint32_t)b[1] << 24 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 8 | b[4];
}

static void test_block_new(test_block_t *block) {
    block->length = 1 + test_below(32); /* in the shortest frame, too */
    test_answer_t answer = test_call_numbers(TEST_ALLOC, &block->length, 1);
    TEST_CHECK(test_code(&answer) == 0);
    block->handle = test_number(&answer);
    memset(block->bytes, (int)test_below(256), sizeof block->bytes);
    test_begin(TEST_WRITE, 3);
    bp_ret_uint(&test_writer, block->handle);
    bp_ret_uint(&test_writer, 0);
    bp_ret_bytes(&test_writer, block->bytes, block->length);
    answer = test_call();
    TEST_CHECK(test_code(&answer) == 0);
}

/* Blocks come and go at random; each keeps its own bytes, and no old handle is any good. */
static void test_arena(void) {
    static test_block_t blocks[TEST_BLOCKS];
    for (int round = 0; round < 20000; round++) {
        test_block_t *block = &blocks[test_below(TEST_BLOCKS)];
        if (block->length == 0) {
            test_block_new(block);
            continue;
        }
        const uint32_t whole[] = {block->handle, 0, block->length};
        test_answer_t answer = test_call_numbers(TEST_READ, whole, 3);
        TEST_CHECK(test_code(&answer) == 0 && answer.length == block->length + 3);
        TEST_CHECK(memcmp(answer.body + 3, block->bytes, block->length) == 0);
        if (test_below(2) == 0) {
            answer = test_call_numbers(TEST_FREE, &block->handle, 1);
            TEST_CHECK(test_code(&answer) == 0);
            answer = test_call_numbers(TEST_READ, whole, 3);
            TEST_CHECK(test_code(&answer) == BP_ERR_BAD_HANDLE);
            block->length = 0;
        }
    }
}
#endif

/// Pointers ///

#ifdef TEST_POINTERS

enum {
    TEST_SCALE = TEST_END + (BP_CFG_GUARD ? 1 : 0) + (BP_CFG_STREAM ? 1 : 0) + 2,
};

/* What `scale` leaves of a span after `calls` calls. */
static void test_scaled(uint8_t *bytes, uint32_t length, uint32_t calls) {
    for (uint32_t i = 0; i < length; i += 4) {
        bp_put_u32(bytes + i, bp_get_u32(bytes + i) << calls);
    }
}

static void test_put_span(uint32_t handle, uint32_t offset, uint32_t length, uint32_t copy) {
    uint8_t bytes[BP_SPAN_COPY_LEN];
    const bp_span_copy_t span = {
        .handle = handle, .offset = offset, .length = length, .copy = copy};
    bp_span_copy_put(bytes, &span);
    bp_ret_bytes(&test_writer, bytes, copy != 0 ? BP_SPAN_COPY_LEN : BP_SPAN_LEN);
}

static void test_block_is(const test_block_t *block) {
    const uint32_t whole[] = {block->handle, 0, block->length};
    test_answer_t answer = test_call_numbers(TEST_READ, whole, 3);
    TEST_CHECK(test_code(&answer) == 0 && answer.length == block->length + 3);
    TEST_CHECK(memcmp(answer.body + 3, block->bytes, block->length) == 0);
}

/* One call, or some rounds of a measurement; `copy` may be the block's own again. */
static void test_span_once(test_block_t *block, const test_block_t *copy) {
    uint32_t offset = test_below(block->length / 8 + 1) * 8;
    uint32_t length = test_below((block->length - offset) / 4 + 1) * 4;
    bool copied = copy != NULL && length <= copy->length;
    uint32_t rounds = test_below(4), number = 1;
    if (rounds == 0) {
        test_begin(TEST_SCALE, 2);
    } else {
        number = 1 + test_below(3);
        test_begin(1, 8);
        const uint32_t head[] = {TEST_SCALE, 0, rounds, 1, number, 1};
        for (uint32_t i = 0; i < 6; i++) {
            bp_ret_uint(&test_writer, head[i]);
        }
    }
    test_put_span(block->handle, offset, length, copied ? copy->handle : 0);
    bp_ret_uint(&test_writer, length / 4);
    test_answer_t answer = test_call();
    TEST_CHECK(test_code(&answer) == 0);
    if (copied) {
        memcpy(block->bytes + offset, copy->bytes, length);
    }
    test_scaled(block->bytes + offset, length, copied ? number : rounds + number);
}

/* Whatever is passed, only the span changes, and to what it must. */
static void test_spans(void) {
    static test_block_t blocks[2];
    for (int round = 0; round < 5000; round++) {
        for (int i = 0; i < 2; i++) {
            test_block_new(&blocks[i]);
        }
        test_span_once(&blocks[0], test_below(4) == 0 ? NULL : &blocks[1]);
        for (int i = 0; i < 2; i++) {
            test_block_is(&blocks[i]);
            test_answer_t answer = test_call_numbers(TEST_FREE, &blocks[i].handle, 1);
            TEST_CHECK(test_code(&answer) == 0);
        }
    }
}

/* No number leads out of a block: nothing runs then. */
static void test_wild_spans(void) {
    test_block_t block, copy;
    test_block_new(&block);
    test_block_new(&copy);
    for (int round = 0; round < 20000; round++) {
        uint32_t handle = test_below(2) ? block.handle : test_edge();
        uint32_t offset = test_below(2) ? test_below(6) * 8 : test_edge();
        uint32_t length = test_below(2) ? test_below(10) * 4 : test_edge();
        uint32_t other = test_below(2) ? copy.handle : test_edge();
        test_begin(TEST_SCALE, 2);
        test_put_span(handle, offset, length, other);
        bp_ret_uint(&test_writer, 0);
        test_answer_t answer = test_call();
        bool good = handle == block.handle && offset % 8 == 0 && length % 4 == 0 &&
                    offset <= block.length && length <= block.length - offset &&
                    (other == 0 || (other == copy.handle && length <= copy.length));
        TEST_CHECK((test_code(&answer) == 0) == good);
        if (good && other != 0) {
            memcpy(block.bytes + offset, copy.bytes, length);
        }
        test_block_is(&block);
    }
}

#endif

/// Channels ///

/* Of the open channel: what the host knows. */
static struct {
    const uint8_t *content; /* as it must come; NULL: none is open */
    uint32_t passed;        /* of an upload acknowledged, of a download taken */
    uint32_t length;
    uint32_t credit;
    size_t on_line; /* bytes of DATA frames since the last ACK, at least, as they stand on it */
    bool gap;
} test_line;

static void test_overhear(uint8_t kind, const uint8_t *body, size_t length) {
    uint32_t offset = bp_get_u32(body);
    if (kind == BP_KIND_ACK) {
        TEST_CHECK(length == BP_ACK_LEN && bp_get_u32(body + 4) >= BP_CFG_MTU);
        if (test_line.content != NULL) {
            TEST_CHECK(offset >= test_line.passed && offset <= test_line.length);
            test_line.passed = offset;
        }
    } else if (test_line.content != NULL) {
        uint32_t size = (uint32_t)length - 4;
        TEST_CHECK(length > 4 && offset < test_line.length && size <= test_line.length - offset);
        TEST_CHECK(memcmp(body + 4, test_line.content + offset, size) == 0);
        test_line.on_line += length + 14;
        TEST_CHECK(test_line.on_line <= test_line.credit);
        /* As if every fourth frame had been lost. */
        if (offset == test_line.passed && test_below(4) != 0) {
            test_line.passed += size;
        }
    }
}

#if BP_CFG_BULK

enum { TEST_BLOCK = BP_CFG_ARENA / 2 };

/* A DATA or ACK of this channel, or of the one before; `length` bytes behind the offset. */
static void test_channel_frame(uint8_t kind, uint32_t opener, uint32_t offset, const uint8_t *bytes,
                               size_t length) {
    uint8_t body[BP_FRAME_MAX];
    bp_put_u32(body, offset);
    memcpy(body + 4, bytes, length);
    uint32_t sequence = test_sequence;
    test_sequence = opener;
    test_answer_t answer = test_exchange(kind, body, length + 4);
    test_sequence = sequence;
    TEST_CHECK(answer.frames == 0);
}

/* Frames that nobody sends, of any length and with any numbers. */
static void test_wild_channel_frame(uint32_t opener) {
    uint8_t bytes[32];
    memset(bytes, 0xee, sizeof bytes);
    bp_put_u32(bytes, test_edge());
    /* Nothing of it may be taken: no DATA where they are due, no ACK of what was sent. */
    uint32_t offset = test_line.length + 1 + test_below(1000);
    size_t length = test_below(sizeof bytes);
    test_channel_frame(test_below(2) ? BP_KIND_DATA : BP_KIND_ACK, opener, offset, bytes, length);
}

static void test_finish(uint32_t opener) {
    test_answer_t answer = test_call_numbers(TEST_FINISH, &opener, 1);
    TEST_CHECK(test_code(&answer) == 0 && answer.body[0] == 0x93);
    const uint8_t *body = answer.body + 1;
    for (int i = 0; i < 2; i++) {
        uint32_t value = body[0];
        if (value == 0xce) {
            value = (uint32_t)body[1] << 24 | (uint32_t)body[2] << 16 | (uint32_t)body[3] << 8 |
                    body[4];
            body += 4;
        }
        body++;
        TEST_CHECK(value ==
                   (i == 0 ? test_line.length : bp_crc32(0, test_line.content, test_line.length)));
    }
    TEST_CHECK(*body == 0);
    test_line.content = NULL;
}

static void test_upload(uint32_t opener) {
    enum { LONGEST = BP_FRAME_MAX - 11 - 4 };
    while (test_line.passed < test_line.length) {
        if (test_below(4) == 0) {
            test_wild_channel_frame(opener);
            continue;
        }
        uint32_t ahead = test_below(3) == 0 ? test_below(8) : 0;
        uint32_t offset = test_line.passed + ahead;
        uint32_t left = offset < test_line.length ? test_line.length - offset : 0;
        uint32_t size = test_below(LONGEST + 1);
        if (size > left) {
            size = left;
        }
        test_channel_frame(BP_KIND_DATA, opener, offset, test_line.content + offset, size);
        TEST_CHECK(ahead != 0 || size == 0 || test_line.passed == offset + size);
    }
}

static void test_download(uint32_t opener) {
    for (uint32_t told = 0; told < test_line.length;) {
        if (test_below(4) == 0) {
            test_line.on_line = 0;
            test_wild_channel_frame(opener);
            continue;
        }
        uint8_t bytes[5];
        told = test_line.passed;
        test_line.credit = test_below(4) == 0 ? test_below(64) : test_below(4 * BP_CFG_MTU);
        test_line.on_line = 0;
        bp_put_u32(bytes, test_line.credit);
        bytes[4] = BP_ACK_RESEND;
        test_channel_frame(BP_KIND_ACK, opener, told, bytes, sizeof bytes);
    }
}

/* Blocks go both ways, whatever else comes between; the arena beside them stays as it is. */
static void test_channels(void) {
    static uint8_t content[TEST_BLOCK];
    const uint32_t size = TEST_BLOCK;
    test_answer_t answer = test_call_numbers(TEST_ALLOC, &size, 1);
    TEST_CHECK(test_code(&answer) == 0);
    uint32_t handle = test_number(&answer);
    for (int round = 0; round < 200; round++) {
        uint32_t length = test_below(4) == 0 ? 1 + test_below(3) : 1 + test_below(TEST_BLOCK);
        uint32_t numbers[] = {handle, test_below(TEST_BLOCK - length + 1), length};
        for (uint32_t i = 0; i < length; i++) {
            content[i] = (uint8_t)(test_below(3) == 0 ? 0 : test_random());
        }
        for (uint32_t down = 0; down < 2; down++) {
            memset(&test_line, 0, sizeof test_line);
            test_line.content = content;
            test_line.length = length;
            answer = test_call_numbers(down ? TEST_DOWNLOAD : TEST_UPLOAD, numbers, 3);
            TEST_CHECK(test_code(&answer) == 0);
            uint32_t opener = test_sequence;
            if (down) {
                test_download(opener);
            } else {
                test_upload(opener);
            }
            test_finish(opener);
        }
    }
}

#endif

int main(int argc, char **argv) {
    test_random_state = argc > 1 ? strtoull(argv[1], NULL, 10) * 2 + 1 : 1;
    test_port_reset();
    test_firmware_reset();
    bp_init();
    test_hello(TEST_SESSION);
    test_the_dictionary_matches_its_hash();
    test_every_length_of_a_reply();
    test_every_length_of_a_call();
    test_no_flipped_bit_runs_anything();
    test_noise();
    test_random_bodies();
    test_edges_as_arguments();
    test_measurements();
#if BP_CFG_ARENA
    test_hello(1); /* forgets the blocks that random calls have left */
    test_hello(TEST_SESSION);
    test_arena();
#endif
#ifdef TEST_POINTERS
    test_hello(1);
    test_hello(TEST_SESSION);
    test_spans();
    test_wild_spans();
#endif
#if BP_CFG_BULK
    test_hello(1);
    test_hello(TEST_SESSION);
    test_channels();
#endif
    test_the_dictionary_matches_its_hash();
    printf("%u calls, MTU %u\n", (unsigned)test_calls, (unsigned)BP_CFG_MTU);
    return 0;
}
