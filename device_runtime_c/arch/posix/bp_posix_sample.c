/* SPDX-License-Identifier: Apache-2.0 */
/* Sampling a process: a timer's signal interrupts the function at random times.
 *
 * A timer and not perf_event's software clock: both are the kernel's high-resolution timers, but
 * that one needs a permission which containers withhold, and its period is fixed unless each signal
 * sets it anew. */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* SIGEV_THREAD_ID */
#endif

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"
#include "bp_posix_image.h"

#if BP_CFG_SAMPLING

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static const char bp_sampling_source[] BP_ROM = "CLOCK_MONOTONIC, a timer's signal";

/* In nanoseconds. The signal and its return take one to five microseconds. */
const bp_port_sampling_t bp_port_sampling BP_ROM = {
    .source = bp_sampling_source,
    .least = 20000,
    .most = 1000000000,
    .usual = 70000,
    .dither = 8,
};

static struct {
    bp_posix_image_t image;
    timer_t timer;
    pid_t process; /* the owner of the timer: a child that a function forks has none */
    bool is_ready;
    volatile sig_atomic_t is_on;
} bp_sample_clock;

/* A realtime signal, the one before that of the guard's timer. */
static int bp_sample_signal(void) {
    return SIGRTMAX - 5;
}

static void bp_sample_arm(uint32_t wait_ns) {
    const struct itimerspec wait = {.it_value = {.tv_sec = (time_t)(wait_ns / 1000000000),
                                                 .tv_nsec = (long)(wait_ns % 1000000000)}};
    (void)timer_settime(bp_sample_clock.timer, 0, &wait, NULL);
}

/* Code of shared libraries keeps its address in this process. */
static void bp_on_sample(int number, siginfo_t *info, void *context) {
    (void)number;
    if (!bp_sample_clock.is_on || info->si_code != SI_TIMER) {
        return;
    }
    const bp_posix_image_t *image = &bp_sample_clock.image;
    uintptr_t pc = bp_posix_context_pc(context);
    bool ours = pc >= image->text && pc < image->text_end;
    bp_sample_arm(bp_sample_take(ours ? pc - image->bias : pc, bp_posix_context_sp(context)));
}

/* The agent's process may be a fork of the one that was here before. */
static void bp_sample_begin(void) {
    struct sigaction action = {.sa_sigaction = bp_on_sample,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = bp_sample_signal()};
    event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
    sigfillset(&action.sa_mask); /* the guard's timer must not leave this handler by longjmp */
    bp_posix_image_find(&bp_sample_clock.image);
    (void)sigaction(bp_sample_signal(), &action, NULL);
    bp_sample_clock.is_ready = timer_create(CLOCK_MONOTONIC, &event, &bp_sample_clock.timer) == 0;
    bp_sample_clock.process = getpid();
}

void bp_port_sample_start(uint32_t ticks) {
    if (!bp_sample_clock.is_ready || bp_sample_clock.process != getpid()) {
        bp_sample_begin();
    }
    if (bp_sample_clock.is_ready) {
        bp_sample_clock.is_on = 1;
        bp_sample_arm(ticks);
    }
}

void bp_port_sample_stop(void) {
    if (bp_sample_clock.is_on) {
        bp_sample_clock.is_on = 0;
        bp_sample_arm(0);
    }
}

#endif
