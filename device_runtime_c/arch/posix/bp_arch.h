/* SPDX-License-Identifier: Apache-2.0 */
/* A process: the lock of probes (src/bp_trace.c). Its clock is the port's.
 *
 * Threads share one ring, and a probe may also be in a signal handler. So the lock belongs to a
 * thread. A probe that finds it taken by its own thread has interrupted it, and must not wait. */

#ifndef BP_ARCH_H
#define BP_ARCH_H

#include <stdbool.h>
#include <stdint.h>

#define BP_ARCH_HAS_THREADS 1

/* The image, if it may be loaded anywhere: its address 0, and the end of its code. */
#ifdef __PIC__
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char etext[] __attribute__((visibility("hidden")));
#define BP_ARCH_IMAGE_BEGIN ((uintptr_t)__ehdr_start)
#define BP_ARCH_IMAGE_END ((uintptr_t)etext)
#endif

/* What bp_arch_lock returns. Unlocking with anything but TAKEN does nothing. */
#define BP_ARCH_STAYS_LOCKED ((uintptr_t)0)
#define BP_ARCH_TAKEN ((uintptr_t)1)
#define BP_ARCH_IS_OWN ((uintptr_t)2)
#define BP_ARCH_TIMED_OUT ((uintptr_t)3)

static inline bool bp_arch_is_refused(uintptr_t lock) {
    return lock > BP_ARCH_TAKEN;
}

/* For probes. It waits 10 ms at most. */
uintptr_t bp_arch_lock(void);
void bp_arch_unlock(uintptr_t lock);

/* For the agent, which is in no probe: the lock of its own thread is left from a call that a fault
 * has ended. If another thread has it for a second, that one must be stuck, and loses it. */
uintptr_t bp_arch_lock_always(void);

#endif
