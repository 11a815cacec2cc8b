/* SPDX-License-Identifier: Apache-2.0 */
/* The C library's heap as probes (BP_CFG_TRACE_HEAP): malloc, calloc, realloc, free, strdup,
 * strndup, aligned_alloc, memalign and posix_memalign, each with the address that called it. The
 * linker replaces calls of them by these
 * (-Wl,--wrap=malloc, and so on: the list is in docs/probes.md). Calls from within a static C
 * library, such as those of asprintf, are replaced as well. Those within a shared one are not seen.
 *
 * The library must have malloc_usable_size: newlib, picolibc, glibc and musl have it. It tells how
 * many bytes a block holds when that is given back, so that no header is needed.
 *
 * Context: wherever malloc may be called. */

#include "boardprof/bp_config.h"

#if BP_CFG_TRACE_HEAP

#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "boardprof/bp_trace.h"

#define BP_CALLER() __builtin_return_address(0)

/* newlib's own functions call those that end in _r. So these are replaced, too, and the others call
 * the real ones of these. */
#if defined(__NEWLIB__) && !defined(__PICOLIBC__)
#include <reent.h>
#define BP_HAS_REENT 1
void *__real__malloc_r(struct _reent *reent, size_t bytes);
void *__real__memalign_r(struct _reent *reent, size_t alignment, size_t bytes);
void __real__free_r(struct _reent *reent, void *block);
#define BP_REAL_MALLOC(bytes) __real__malloc_r(_REENT, bytes)
#define BP_REAL_FREE(block) __real__free_r(_REENT, block)
#define BP_REAL_MEMALIGN(alignment, bytes) __real__memalign_r(_REENT, alignment, bytes)
#else
void *__real_malloc(size_t bytes);
void *__real_memalign(size_t alignment, size_t bytes);
void __real_free(void *block);
#define BP_REAL_MALLOC(bytes) __real_malloc(bytes)
#define BP_REAL_FREE(block) __real_free(block)
#define BP_REAL_MEMALIGN(alignment, bytes) __real_memalign(alignment, bytes)
#endif

/* newlib and picolibc make calloc of malloc, which would be seen twice. */
#if defined(__NEWLIB__) || defined(__PICOLIBC__)
#define BP_OWN_CALLOC 1
#else
void *__real_calloc(size_t count, size_t bytes);
#endif

static size_t bp_held(void *block) {
    return block != NULL ? malloc_usable_size(block) : 0;
}

static void *bp_take(size_t bytes, const void *caller) {
    void *block = BP_REAL_MALLOC(bytes);
    bp_heap_taken(block, bytes, bp_held(block), caller);
    return block;
}

static void bp_give(void *block) {
    if (block != NULL) {
        bp_heap_given(block, bp_held(block));
        BP_REAL_FREE(block);
    }
}

static void *bp_take_clear(size_t count, size_t bytes, const void *caller) {
    size_t all;
    if (__builtin_mul_overflow(count, bytes, &all)) {
        all = SIZE_MAX; /* the library refuses it */
    }
#ifdef BP_OWN_CALLOC
    void *block = bp_take(all, caller);
    return block != NULL ? memset(block, 0, all) : NULL;
#else
    void *block = __real_calloc(count, bytes);
    bp_heap_taken(block, all, bp_held(block), caller);
    return block;
#endif
}

/* As picolibc and newlib-nano do it. Their realloc calls malloc and free, which would be seen as
 * well. A block stays where it is if at least half of it is used. */
static void *bp_take_again(void *block, size_t bytes, const void *caller) {
    if (block == NULL) {
        return bp_take(bytes, caller);
    }
    if (bytes == 0) {
        bp_give(block);
        return NULL;
    }
    size_t held = bp_held(block);
    bool fits = bytes <= held;
    void *other = fits && bytes > held / 2 ? NULL : BP_REAL_MALLOC(bytes);
    if (other != NULL) {
        memcpy(other, block, fits ? bytes : held);
        bp_heap_replaced(block, held, other, bytes, bp_held(other), caller);
        BP_REAL_FREE(block);
        return other;
    }
    if (fits) {
        bp_heap_replaced(block, held, block, bytes, held, caller);
        return block;
    }
    bp_heap_taken(NULL, bytes, 0, caller);
    return NULL;
}

static void *bp_take_copy(const char *text, size_t length, const void *caller) {
    char *copy = bp_take(length + 1, caller);
    if (copy != NULL) {
        memcpy(copy, text, length);
        copy[length] = '\0';
    }
    return copy;
}

/* newlib's memalign takes a larger block and gives parts of it back with its own functions. These
 * calls are on the same stack, a few frames below this one. A task that interrupts it has another
 * stack. */
#ifdef BP_HAS_REENT
#define BP_FRAMES_OF_MEMALIGN 512u
static volatile uintptr_t bp_aligning;

static bool bp_is_aligning(void) {
    uintptr_t frame = bp_aligning;
    return frame != 0 && frame - (uintptr_t)__builtin_frame_address(0) < BP_FRAMES_OF_MEMALIGN;
}
#endif

static void *bp_take_aligned(size_t alignment, size_t bytes, const void *caller) {
#ifdef BP_HAS_REENT
    bp_aligning = (uintptr_t)__builtin_frame_address(0);
#endif
    void *block = BP_REAL_MEMALIGN(alignment, bytes);
#ifdef BP_HAS_REENT
    bp_aligning = 0;
#endif
    bp_heap_taken(block, bytes, bp_held(block), caller);
    return block;
}

/// What the linker puts in their place ///

void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *block, size_t bytes);
void __wrap_free(void *block);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t most);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_memalign(size_t alignment, size_t bytes);
int __wrap_posix_memalign(void **block, size_t alignment, size_t bytes);

void *__wrap_malloc(size_t bytes) {
    return bp_take(bytes, BP_CALLER());
}

void *__wrap_calloc(size_t count, size_t bytes) {
    return bp_take_clear(count, bytes, BP_CALLER());
}

void *__wrap_realloc(void *block, size_t bytes) {
    return bp_take_again(block, bytes, BP_CALLER());
}

void __wrap_free(void *block) {
    bp_give(block);
}

char *__wrap_strdup(const char *text) {
    return bp_take_copy(text, strlen(text), BP_CALLER());
}

char *__wrap_strndup(const char *text, size_t most) {
    const char *end = memchr(text, 0, most);
    return bp_take_copy(text, end != NULL ? (size_t)(end - text) : most, BP_CALLER());
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
    return bp_take_aligned(alignment, bytes, BP_CALLER());
}

void *__wrap_memalign(size_t alignment, size_t bytes) {
    return bp_take_aligned(alignment, bytes, BP_CALLER());
}

int __wrap_posix_memalign(void **block, size_t alignment, size_t bytes) {
    if (alignment < sizeof(void *) || (alignment & (alignment - 1)) != 0) {
        return EINVAL;
    }
    void *taken = bp_take_aligned(alignment, bytes, BP_CALLER());
    if (taken == NULL) {
        return ENOMEM;
    }
    *block = taken;
    return 0;
}

#ifdef BP_HAS_REENT

void *__wrap__malloc_r(struct _reent *reent, size_t bytes);
void *__wrap__calloc_r(struct _reent *reent, size_t count, size_t bytes);
void *__wrap__realloc_r(struct _reent *reent, void *block, size_t bytes);
void *__wrap__memalign_r(struct _reent *reent, size_t alignment, size_t bytes);
void __wrap__free_r(struct _reent *reent, void *block);

/* `reent` is the caller's own, as _REENT is. */
void *__wrap__malloc_r(struct _reent *reent, size_t bytes) {
    (void)reent;
    return bp_is_aligning() ? BP_REAL_MALLOC(bytes) : bp_take(bytes, BP_CALLER());
}

void *__wrap__calloc_r(struct _reent *reent, size_t count, size_t bytes) {
    (void)reent;
    return bp_take_clear(count, bytes, BP_CALLER());
}

void *__wrap__realloc_r(struct _reent *reent, void *block, size_t bytes) {
    (void)reent;
    return bp_take_again(block, bytes, BP_CALLER());
}

void *__wrap__memalign_r(struct _reent *reent, size_t alignment, size_t bytes) {
    (void)reent;
    return bp_take_aligned(alignment, bytes, BP_CALLER());
}

void __wrap__free_r(struct _reent *reent, void *block) {
    (void)reent;
    if (bp_is_aligning()) {
        BP_REAL_FREE(block);
    } else {
        bp_give(block);
    }
}

#endif

#endif
