/* SPDX-License-Identifier: Apache-2.0 */

/* libc's check of longjmp would reject a jump from one stack to another. */
#undef _FORTIFY_SOURCE

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pthread_getattr_np */
#endif

#include "bp_posix_stack.h"

#include <pthread.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"

typedef struct {
    uint8_t *lowest; /* NULL: not known */
    size_t size;
    size_t guard; /* bytes at its lower end that may be inaccessible */
} bp_extent_t;

/// The thread's own stack ///

/* The thread's own stack.
 *
 * Some C libraries count the guard at its lower end as part of the stack, others do not. So as much
 * is left out above the reported end.
 *
 * The first thread's stack grows on demand, downwards, up to the current limit. It has no guard,
 * but its last page may be incomplete. Painting goes down word by word, far below the stack
 * pointer. x86 Linux before 5.0 does not grow the stack for an access more than 64 KiB + 256 bytes
 * below the stack pointer. There BP_CFG_STACK must be less. */
static bp_extent_t bp_thread_stack(void) {
    enum { PAGE = 4096 };
    bp_extent_t extent = {.lowest = NULL};
    pthread_attr_t attributes;
    void *lowest = NULL;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        (void)pthread_attr_getguardsize(&attributes, &extent.guard);
        if (pthread_attr_getstack(&attributes, &lowest, &extent.size) == 0) {
            extent.lowest = lowest;
        }
        (void)pthread_attr_destroy(&attributes);
    }
    extent.guard = extent.guard > PAGE ? extent.guard : PAGE;
    return extent;
}

/// The separate stack ///

enum {
    /* Multiples of the page size. They take addresses but no memory: as many below as a large array
     * may skip at once. */
    BP_FENCE_BELOW = 1 << 26,
    BP_FENCE_ABOVE = 1 << 20
};

/* Defined by the linker if the functions' code has nested functions, whose addresses are code on
 * the stack. */
extern const char bp_stack_executes[] __attribute__((weak, visibility("hidden")));

static struct {
    bp_extent_t extent; /* between the fences; NULL: use the thread's stack */
    void (*body)(void *context);
    void *context;
    ucontext_t there;
    sigjmp_buf way_back;
} bp_apart;

#if BP_CFG_GUARD && defined(__GLIBC__) /* musl has no contexts */

void bp_posix_stack_begin(void) {
    size_t size = bp_thread_stack().size;
    size_t whole = BP_FENCE_BELOW + size + BP_FENCE_ABOVE;
    uint8_t *all = mmap(NULL, whole, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (all == MAP_FAILED) {
        return;
    }
    int use = PROT_READ | PROT_WRITE | (bp_stack_executes != NULL ? PROT_EXEC : 0);
    if (size == 0 || mprotect(all + BP_FENCE_BELOW, size, use) != 0) {
        (void)munmap(all, whole);
        return;
    }
    bp_apart.extent = (bp_extent_t){.lowest = all + BP_FENCE_BELOW, .size = size};
}

void bp_posix_stack_end(void) {
    if (bp_apart.extent.lowest != NULL) {
        (void)munmap(bp_apart.extent.lowest - BP_FENCE_BELOW,
                     BP_FENCE_BELOW + bp_apart.extent.size + BP_FENCE_ABOVE);
        bp_apart.extent.lowest = NULL;
    }
}

/* This stack holds nothing that is needed to return, since the body may have overwritten it. */
_Noreturn static void bp_begin_apart(void) {
    bp_apart.body(bp_apart.context);
    siglongjmp(bp_apart.way_back, 1);
}

void bp_posix_stack_call(void (*body)(void *context), void *context) {
    if (bp_apart.extent.lowest == NULL || getcontext(&bp_apart.there) != 0) {
        body(context);
    } else if (sigsetjmp(bp_apart.way_back, 0) == 0) {
        bp_apart.body = body;
        bp_apart.context = context;
        bp_apart.there.uc_link = NULL;
        bp_apart.there.uc_stack.ss_sp = bp_apart.extent.lowest;
        bp_apart.there.uc_stack.ss_size = bp_apart.extent.size;
        makecontext(&bp_apart.there, bp_begin_apart, 0);
        (void)setcontext(&bp_apart.there);
        abort(); /* it cannot return, and a body that did not run must not seem to have run */
    }
}

#else

void bp_posix_stack_begin(void) {
}

void bp_posix_stack_end(void) {
}

void bp_posix_stack_call(void (*body)(void *context), void *context) {
    body(context);
}

#endif

/// Where the stack ends ///

static bp_extent_t bp_stack_extent(void) {
    return bp_apart.extent.lowest != NULL ? bp_apart.extent : bp_thread_stack();
}

uintptr_t bp_posix_stack_lowest(void) {
    return (uintptr_t)bp_stack_extent().lowest;
}

#if BP_CFG_STACK

uint8_t *bp_port_stack_limit(void) {
    bp_extent_t extent = bp_stack_extent();
    return extent.lowest != NULL ? extent.lowest + extent.guard : NULL;
}

#endif
