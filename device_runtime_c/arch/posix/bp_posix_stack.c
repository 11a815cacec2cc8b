/* SPDX-License-Identifier: Apache-2.0 */
/* Where the stack of the agent's thread ends. */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pthread_getattr_np */
#endif

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"

#if BP_CFG_STACK

/* The guard at its lower end counts as the stack's in some C libraries, and not in others: what
 * lies as far above is left out. The first thread's stack grows on demand, from the top down, up to
 * the limit that holds now; it has no guard, but a last page that may be cut off. Painting goes
 * down word by word, far below the stack pointer: x86 Linux before 5.0 does not let that stack grow
 * for what lies more than 64 KiB + 256 bytes below it. There BP_CFG_STACK must be less. */
uint8_t *bp_port_stack_limit(void) {
    enum { PAGE = 4096 };
    pthread_attr_t attributes;
    void *lowest = NULL;
    size_t size = 0, guard = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) {
        return NULL;
    }
    int err = pthread_attr_getstack(&attributes, &lowest, &size);
    (void)pthread_attr_getguardsize(&attributes, &guard);
    (void)pthread_attr_destroy(&attributes);
    return err == 0 ? (uint8_t *)lowest + (guard > PAGE ? guard : PAGE) : NULL;
}

#endif
