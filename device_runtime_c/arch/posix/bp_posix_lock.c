/* SPDX-License-Identifier: Apache-2.0 */
/* The lock of probes. Everything here may be called in a signal handler. */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pthread_self, clock_gettime */
#endif

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "bp_arch.h"
#include "boardprof/bp_config.h"

#if BP_CFG_TRACE

#define BP_SPINS 200 /* the owner takes less, unless it does not run */
#define BP_PROBE_WAIT_NS 10000000
#define BP_AGENT_WAIT_NS 1000000000

static uintptr_t bp_lock_owner; /* a thread; 0 if it is free */

static uintptr_t bp_thread(void) {
    return (uintptr_t)pthread_self();
}

/* Returns the thread that has the lock; 0: it is taken now. */
static uintptr_t bp_lock_try(uintptr_t self) {
    uintptr_t owner = 0;
    (void)__atomic_compare_exchange_n(&bp_lock_owner, &owner, self, false, __ATOMIC_ACQUIRE,
                                      __ATOMIC_RELAXED);
    return owner;
}

static int64_t bp_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Returns whether it is taken before the time is over. */
static bool bp_lock_wait(uintptr_t self, int64_t wait_ns) {
    for (int i = 0; i < BP_SPINS; i++) {
        if (bp_lock_try(self) == 0) {
            return true;
        }
    }
    int64_t end = bp_now_ns() + wait_ns;
    do {
        sched_yield();
        if (bp_lock_try(self) == 0) {
            return true;
        }
    } while (bp_now_ns() < end);
    return false;
}

uintptr_t bp_arch_lock(void) {
    uintptr_t self = bp_thread();
    uintptr_t owner = bp_lock_try(self);
    if (owner == self) {
        return BP_ARCH_IS_OWN;
    }
    return owner == 0 || bp_lock_wait(self, BP_PROBE_WAIT_NS) ? BP_ARCH_TAKEN : BP_ARCH_TIMED_OUT;
}

uintptr_t bp_arch_lock_always(void) {
    uintptr_t self = bp_thread();
    uintptr_t owner = bp_lock_try(self);
    if (owner != 0 && owner != self && !bp_lock_wait(self, BP_AGENT_WAIT_NS)) {
        __atomic_store_n(&bp_lock_owner, self, __ATOMIC_SEQ_CST);
    }
    return BP_ARCH_TAKEN;
}

void bp_arch_unlock(uintptr_t lock) {
    uintptr_t self = bp_thread();
    if (lock == BP_ARCH_TAKEN) {
        (void)__atomic_compare_exchange_n(&bp_lock_owner, &self, 0, false, __ATOMIC_RELEASE,
                                          __ATOMIC_RELAXED);
    }
}

#endif
