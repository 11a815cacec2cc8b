/* SPDX-License-Identifier: Apache-2.0 */
/* The arena: memory that the host allocates, fills and reads. A handle is a slot of the table below
 * and its generation, so that the handle of a freed block is refused. SPEC.md 5.4. */

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"
#include "bp_internal.h"

#if BP_CFG_ARENA

typedef struct {
    uint32_t offset;
    uint32_t length; /* 0: the slot is free */
    uint16_t generation;
} bp_block_t;

/* Alignment of blocks: as malloc() on 64-bit cores, and enough for 128-bit vectors. */
enum { BP_BLOCK_ALIGN = 16 };

/* A multiple of the alignment, since bp_clear writes whole words. */
#define BP_ARENA_UNITS ((BP_CFG_ARENA - 1u) / BP_BLOCK_ALIGN + 1u)

/* On AVR the arena is above all variables (.noinit follows .bss). So a stack that overflows
 * overwrites the host's data and not the agent, which can still report it (bp_avr_guard.c). */
#if defined(__AVR__)
#define BP_ARENA_PLACE __attribute__((section(".noinit")))
#else
#define BP_ARENA_PLACE
#endif

_Static_assert(BP_CFG_ARENA_MARGIN % BP_BLOCK_ALIGN == 0, "the arena follows its margin");

static _Alignas(BP_BLOCK_ALIGN) BP_ARENA_PLACE uint8_t
    bp_arena_room[BP_CFG_ARENA_MARGIN + BP_ARENA_UNITS * BP_BLOCK_ALIGN + BP_CFG_ARENA_MARGIN];

#define bp_arena (bp_arena_room + BP_CFG_ARENA_MARGIN)

static bp_block_t bp_blocks[BP_CFG_HANDLES];

void bp_arena_reset(void) {
    for (uint8_t i = 0; i < BP_CFG_HANDLES; i++) {
        bp_blocks[i].length = 0;
    }
#if BP_CFG_BULK
    bp_channel_close(BP_CHANNEL_ANY);
#endif
#if BP_CFG_ARENA_MARGIN
    bp_port_fence(bp_arena_room, BP_CFG_ARENA_MARGIN);
    bp_port_fence(bp_arena + BP_ARENA_UNITS * BP_BLOCK_ALIGN, BP_CFG_ARENA_MARGIN);
#endif
}

static bp_block_t *bp_block(bp_call_t *call, uint32_t handle) {
    uint32_t slot = handle & 0xffu;
    if (slot < BP_CFG_HANDLES && bp_blocks[slot].length != 0 &&
        bp_blocks[slot].generation == handle >> 8) {
        return &bp_blocks[slot];
    }
    bp_fail(call, BP_ERR_BAD_HANDLE, handle);
    return NULL;
}

/* The lowest offset with `length` free bytes; BP_CFG_ARENA if there is none. */
static uint32_t bp_find_room(uint32_t length) {
    uint32_t offset = 0;
    for (uint8_t i = 0; i < BP_CFG_HANDLES; i++) {
        const bp_block_t *block = &bp_blocks[i];
        if (block->length != 0 && offset < block->offset + block->length &&
            block->offset < offset + length) {
            offset = block->offset + block->length + (BP_BLOCK_ALIGN - 1);
            offset -= offset % BP_BLOCK_ALIGN;
            i = UINT8_MAX; /* begin again from the first block */
        }
    }
    return offset <= BP_CFG_ARENA && length <= BP_CFG_ARENA - offset ? offset : BP_CFG_ARENA;
}

/* Zero a block word by word, so that nothing of an older block or session can be seen. The last
 * word may extend past the block, but not into another one. Volatile, since otherwise the compiler
 * calls memset, which is slower in bp_mem.c. */
static void bp_clear(const bp_block_t *block) {
    volatile bp_word_t *word = (volatile bp_word_t *)(void *)(bp_arena + block->offset);
    for (uint32_t left = (block->length - 1) / sizeof *word + 1; left != 0; left--) {
        *word++ = 0;
    }
}

int bp_arena_alloc(bp_call_t *call) {
    uint32_t length = bp_arg_u32(call);
    if (bp_arg_end(call) != 0) {
        return call->err;
    }
    if (length == 0) {
        return bp_fail(call, BP_ERR_ARG_RANGE, 0);
    }
    uint32_t offset = length <= BP_CFG_ARENA ? bp_find_room(length) : BP_CFG_ARENA;
    for (uint32_t slot = 0; slot < BP_CFG_HANDLES && offset < BP_CFG_ARENA; slot++) {
        bp_block_t *block = &bp_blocks[slot];
        if (block->length == 0) {
            block->offset = offset;
            block->length = length;
            block->generation++;
            bp_clear(block);
            bp_ret_uint(call, (uint32_t)block->generation << 8 | slot);
            return call->err;
        }
    }
    return bp_fail(call, BP_ERR_NO_MEMORY, BP_CFG_ARENA);
}

int bp_arena_free(bp_call_t *call) {
    uint32_t handle = bp_arg_u32(call);
    bp_block_t *block;
    if (bp_arg_end(call) == 0 && (block = bp_block(call, handle)) != NULL) {
        block->length = 0;
#if BP_CFG_BULK
        bp_channel_close(handle);
#endif
        bp_ret_nil(call);
    }
    return call->err;
}

#if BP_CFG_SAMPLING
uint32_t bp_arena_size(bp_call_t *call, uint32_t handle) {
    const bp_block_t *block = bp_block(call, handle);
    return block != NULL ? block->length : 0;
}
#endif

uint8_t *bp_arena_span(bp_call_t *call, uint32_t handle, uint32_t offset, uint32_t length) {
    bp_block_t *block = bp_block(call, handle);
    if (block == NULL) {
        return NULL;
    }
    if (offset > block->length || length > block->length - offset) {
        bp_fail(call, BP_ERR_BAD_OFFSET, block->length);
        return NULL;
    }
    return bp_arena + block->offset + offset;
}

bool bp_arena_find(const void *pointer, bp_place_t *place) {
    uintptr_t at = (uintptr_t)pointer - (uintptr_t)bp_arena; /* wraps below the arena */
    for (uint32_t slot = 0; slot < BP_CFG_HANDLES; slot++) {
        const bp_block_t *block = &bp_blocks[slot];
        if (block->length != 0 && at - block->offset < block->length) {
            place->offset = (uint32_t)(at - block->offset);
            place->handle = (uint32_t)block->generation << 8 | slot;
            return true;
        }
    }
    return false;
}

int bp_arena_read(bp_call_t *call) {
    uint32_t handle = bp_arg_u32(call);
    uint32_t offset = bp_arg_u32(call);
    uint32_t length = bp_arg_u32(call);
    const uint8_t *bytes;
    if (bp_arg_end(call) == 0 && (bytes = bp_arena_span(call, handle, offset, length)) != NULL) {
        bp_ret_bytes(call, bytes, (size_t)length);
    }
    return call->err;
}

int bp_arena_write(bp_call_t *call) {
    uint32_t handle = bp_arg_u32(call);
    uint32_t offset = bp_arg_u32(call);
    size_t length;
    const uint8_t *in = bp_arg_bytes(call, &length);
    uint8_t *out;
    if (bp_arg_end(call) == 0 &&
        (out = bp_arena_span(call, handle, offset, (uint32_t)length)) != NULL) {
        while (length--) {
            *out++ = *in++;
        }
        bp_ret_nil(call);
    }
    return call->err;
}

/* Only the generated table refers to this, so images without constant arrays do not have it. */
int bp_arena_crc(bp_call_t *call) {
    uint32_t handle = bp_arg_u32(call);
    uint32_t offset = bp_arg_u32(call);
    uint32_t length = bp_arg_u32(call);
    const uint8_t *bytes;
    if (bp_arg_end(call) == 0 && (bytes = bp_arena_span(call, handle, offset, length)) != NULL) {
        bp_ret_uint(call, bp_crc32(0, bytes, (size_t)length));
    }
    return call->err;
}

#endif
