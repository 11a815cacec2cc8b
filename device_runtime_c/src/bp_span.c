/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments that are pointers: bytes of the arena. If a function changes them, the agent restores
 * them from a copy before each run. SPEC.md 5.9. */

#include "boardprof/bp.h"
#include "bp_internal.h"

#if BP_CFG_ARENA

enum { BP_COPIES = 8 }; /* the most arguments that bp.measure passes */

typedef struct {
    uint8_t *to; /* both are aligned to 8, like blocks and the offsets of spans */
    const uint8_t *from;
    uint32_t length;
} bp_copy_t;

static bp_copy_t bp_copies[BP_COPIES];
static uint8_t bp_copy_count;

void bp_spans_forget(void) {
    bp_copy_count = 0;
}

/* Word by word. Volatile, since otherwise the compiler calls memcpy, which is slower in bp_mem.c.
 */
static void bp_put_back(const bp_copy_t *copy) {
    volatile bp_word_t *to = (volatile bp_word_t *)(void *)copy->to;
    const bp_word_t *from = (const bp_word_t *)(const void *)copy->from;
    uint32_t words = copy->length / sizeof *to;
    for (uint32_t i = 0; i < words; i++) {
        to[i] = from[i];
    }
    for (uint32_t i = words * sizeof *to; i < copy->length; i++) {
        copy->to[i] = copy->from[i];
    }
}

void bp_spans_put_back(void) {
    for (uint_fast8_t i = 0; i < bp_copy_count; i++) {
        bp_put_back(&bp_copies[i]);
    }
}

/* Note a copy at the beginning of another block, so that the two never overlap. */
static void bp_note_copy(bp_call_t *call, uint32_t handle, uint8_t *to, uint32_t length) {
    const uint8_t *from = bp_arena_span(call, handle, 0, length);
    if (from == NULL) {
        return;
    }
    if (bp_copy_count == BP_COPIES) {
        bp_fail(call, BP_ERR_NO_MEMORY, BP_COPIES);
        return;
    }
    bp_copies[bp_copy_count++] = (bp_copy_t){.to = to, .from = from, .length = length};
}

static uint8_t *bp_span(bp_call_t *call, const uint8_t *in, size_t bytes, size_t element_size) {
    bool copied = bytes == BP_SPAN_COPY_LEN;
    if (!copied && bytes != BP_SPAN_LEN) {
        bp_fail(call, BP_ERR_ARG_RANGE, call->argc);
        return NULL;
    }
    uint32_t handle = bp_get_u32(in);
    uint32_t offset = bp_get_u32(in + 4);
    uint32_t length = bp_get_u32(in + 8);
    uint32_t copy = copied ? bp_get_u32(in + 12) : 0;
    if (offset % 8 != 0 || length % element_size != 0 || (copied && copy == handle)) {
        bp_fail(call, BP_ERR_ARG_RANGE, call->argc);
        return NULL;
    }
    uint8_t *span = bp_arena_span(call, handle, offset, length);
    if (span != NULL && copied) {
        bp_note_copy(call, copy, span, length);
    }
    return call->err == 0 ? span : NULL;
}

#endif

void *bp_arg_span(bp_call_t *call, size_t element_size) {
    size_t bytes;
    const uint8_t *in = bp_arg_bytes(call, &bytes);
    if (bytes == 0) { /* NULL, or an error */
        return NULL;
    }
#if BP_CFG_ARENA
    return bp_span(call, in, bytes, element_size);
#else
    (void)in;
    (void)element_size;
    bp_fail(call, BP_ERR_UNSUPPORTED, 0);
    return NULL;
#endif
}
