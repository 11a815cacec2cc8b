/* SPDX-License-Identifier: Apache-2.0 */
/* Pointers besides spans: results, pointers in structs, functions, and memory that the board has
 * pointed to before. No address is ever on the wire. SPEC.md 5.9.
 *
 * Only the generated table refers to these functions, so an image that needs none has none. */

#include "boardprof/bp.h"
#include "boardprof/bp_le.h"
#include "bp_internal.h"

bp_call_t bp_arg_inner(bp_call_t *call, uint_fast8_t count) {
    size_t length;
    const uint8_t *in = bp_arg_bytes(call, &length);
    return (bp_call_t){
        .in = in, .in_end = in + length, .argc = count, .err = call->err, .detail = call->detail};
}

#if BP_CFG_ARENA

/// Tokens ///

enum { BP_TOKENS = 16 };

#define BP_TOKEN_BIT 0x80000000u
/* On AVR the table is in flash, whose addresses are also those of variables. */
#if defined(__AVR__)
#define BP_FIRST_ANCHOR 1
#else
#define BP_FIRST_ANCHOR 0
#endif
#define BP_ANCHOR_REACH ((uintptr_t)1 << (sizeof(uintptr_t) > 2 ? 24 : 15))

/* The last pointers that were returned. A token is BP_TOKEN_BIT and the number of its pointer; it
 * is valid until BP_TOKENS newer ones were returned, and never in another session. */
static struct {
    uint32_t nonce; /* of the session that they belong to, like `session` */
    uint16_t session;
    uint32_t count;
    void *at[BP_TOKENS];
} bp_tokens;

static void bp_tokens_follow_session(void) {
    if (bp_tokens.nonce != bp_agent.nonce || bp_tokens.session != bp_agent.session) {
        bp_tokens.nonce = bp_agent.nonce;
        bp_tokens.session = bp_agent.session;
        bp_tokens.count = 0;
    }
}

static uint32_t bp_token_of(void *pointer) {
    bp_tokens_follow_session();
    uint32_t count = bp_tokens.count;
    uint32_t first = count > BP_TOKENS ? count - BP_TOKENS : 0;
    for (uint32_t number = first; number < count; number++) {
        if (bp_tokens.at[number % BP_TOKENS] == pointer) {
            return BP_TOKEN_BIT | number;
        }
    }
    bp_tokens.at[count % BP_TOKENS] = pointer;
    bp_tokens.count = count + 1;
    return BP_TOKEN_BIT | count;
}

static void *bp_token_at(bp_call_t *call, uint32_t token) {
    bp_tokens_follow_session();
    uint32_t number = token & ~BP_TOKEN_BIT;
    if (number >= bp_tokens.count || bp_tokens.count - number > BP_TOKENS) {
        bp_fail(call, BP_ERR_BAD_HANDLE, token);
        return NULL;
    }
    return bp_tokens.at[number % BP_TOKENS];
}

/// References ///

/* How far a pointer is from one of two variables of the agent, one in each kind of memory. The
 * host knows their places in the image, and so finds the symbol that it points into. */
static void bp_find_anchor(bp_token_t *token, const void *pointer) {
    const void *anchors[2] = {&bp_firmware, &bp_agent};
    for (uint32_t i = BP_FIRST_ANCHOR; i < 2 && token->anchor == 0; i++) {
        uintptr_t from = (uintptr_t)anchors[i];
        uintptr_t to = (uintptr_t)pointer;
        if ((to >= from ? to - from : from - to) < BP_ANCHOR_REACH) {
            token->anchor = i + 1;
            token->distance = (int32_t)(to - from);
        }
    }
}

void bp_ret_pointer(bp_call_t *call, const void *pointer) {
    uint8_t out[BP_TOKEN_LEN];
    bp_place_t place;
    if (pointer == NULL) {
        bp_ret_bytes(call, NULL, 0);
    } else if (bp_arena_find(pointer, &place)) {
        bp_place_put(out, &place);
        bp_ret_bytes(call, out, BP_PLACE_LEN);
    } else {
        bp_token_t token = {.number = bp_token_of((void *)(uintptr_t)pointer)};
        bp_find_anchor(&token, pointer);
        bp_token_put(out, &token);
        bp_ret_bytes(call, out, BP_TOKEN_LEN);
    }
}

/* The next argument if it is `length` bytes; NULL if it is anything else, which is not taken. */
static const uint8_t *bp_next_bytes(bp_call_t *call, uint8_t length) {
    size_t taken;
    if (call->err != 0 || call->argc == 0 || call->in_end - call->in < 2 + length ||
        call->in[0] != BP_TAG_BIN8 || call->in[1] != length) {
        return NULL;
    }
    return bp_arg_bytes(call, &taken);
}

static void *bp_function_pointer(bp_call_t *call, uint32_t id) {
    const bp_function_t *function = bp_function_at(id);
    const bp_target_t *target = function == NULL ? NULL : BP_ROM_GET(function->target);
    if (target == NULL) {
        bp_fail(call, BP_ERR_NO_FUNCTION, id);
        return NULL;
    }
    return (void *)(uintptr_t)BP_ROM_GET(target->fn);
}

void *bp_arg_pointer(bp_call_t *call, size_t element_size) {
    const uint8_t *in = bp_next_bytes(call, 4);
    if (in != NULL) {
        uint32_t number = bp_get_u32(in);
        return (number & BP_TOKEN_BIT) != 0 ? bp_token_at(call, number)
                                            : bp_function_pointer(call, number);
    }
    in = bp_next_bytes(call, BP_PLACE_LEN);
    if (in != NULL) {
        return bp_arena_span(call, bp_get_u32(in), bp_get_u32(in + 4), 0);
    }
    return bp_arg_span(call, element_size);
}

void *bp_arg_struct(bp_call_t *call, size_t size) {
    uint_fast8_t left = call->argc;
    void *at = bp_arg_span(call, size);
    if (call->err == 0 && at == NULL) {
        bp_fail(call, BP_ERR_ARG_RANGE, left - 1u);
    }
    return at;
}

/// Packed functions ///

/* The place of a pointer in a block, which need not be aligned. */
static uint8_t *bp_arg_place(bp_call_t *call) {
    uint32_t handle = bp_arg_u32(call);
    uint32_t offset = bp_arg_u32(call);
    return call->err != 0 ? NULL : bp_arena_span(call, handle, offset, sizeof(void *));
}

static void bp_copy_word(uint8_t *to, const uint8_t *from) {
    for (size_t i = 0; i < sizeof(void *); i++) {
        to[i] = from[i];
    }
}

int bp_point(bp_call_t *call) {
    uint8_t *place = bp_arg_place(call);
    const void *pointer = bp_arg_pointer(call, 1);
    if (bp_arg_end(call) == 0 && place != NULL) {
        bp_copy_word(place, (const uint8_t *)&pointer);
        bp_ret_nil(call);
    }
    return call->err;
}

int bp_unpoint(bp_call_t *call) {
    uint8_t *place = bp_arg_place(call);
    if (bp_arg_end(call) == 0 && place != NULL) {
        const void *null = NULL;
        const void *pointer;
        bp_copy_word((uint8_t *)&pointer, place);
        bp_copy_word(place, (const uint8_t *)&null);
        bp_ret_pointer(call, pointer);
    }
    return call->err;
}

int bp_text_at(bp_call_t *call) {
    const uint8_t *text = bp_arg_pointer(call, 1);
    uint32_t most = bp_arg_u32(call);
    if (bp_arg_end(call) != 0) {
        return call->err;
    }
    uint32_t length = 0;
    while (text != NULL && length < most && text[length] != 0) {
        length++;
    }
    bp_ret_bytes(call, text, (size_t)length);
    return call->err;
}

#endif
