/* SPDX-License-Identifier: Apache-2.0 */
/* This machine, inside the host's own process: a shared library that serves one socket. */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* syscall */
#endif

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"
#include "bp_posix.h"
#include "bp_posix_guard.h"
#include "bp_posix_stack.h"

/* Run the agent on `fd`, one end of a socketpair, in the calling thread. Returns 0 when the peer
 * has closed its end. Returns -1 at once while another thread is in here: the agent and the
 * functions that it measures are static, so there is only one of each. The caller keeps `fd`. */
int bp_native_serve(int fd);

static atomic_bool bp_native_serving;
static pthread_t bp_native_thread;
static pid_t bp_native_process;

/* If a measured function calls exit(), its call ends (bp_posix_exit.c). If another library calls
 * exit() for it, the host would end as if it had succeeded. So end it with 6, the host's exit code
 * for a function that failed. Any other thread may end the process, and so may a child that the
 * function has forked. */
static void bp_native_at_exit(void) {
    if (atomic_load(&bp_native_serving) && pthread_equal(pthread_self(), bp_native_thread) &&
        getpid() == bp_native_process) {
        fputs("error: the function ended the whole process by exit()\n", stderr);
        (void)syscall(SYS_exit_group, 6); /* _exit is wrapped */
    }
}

int bp_native_serve(int fd) {
    static atomic_flag busy = ATOMIC_FLAG_INIT;
    static bool registered;
    if (atomic_flag_test_and_set(&busy)) {
        return -1;
    }
    bp_native_thread = pthread_self();
    bp_native_process = getpid();
    atomic_store(&bp_native_serving, true);
    if (!registered) { /* once for each image, since it cannot be undone */
        registered = atexit(bp_native_at_exit) == 0;
    }
    bp_posix_stack_begin(); /* so that no function can overwrite the host's frames */
    bp_posix_use_socket(fd);
    bp_port_init();
    bp_init();
    while (bp_posix_is_open()) {
        if (bp_poll() == 0) {
            bp_port_idle();
        }
    }
    bp_posix_guard_end();
    bp_posix_stack_end();
    atomic_store(&bp_native_serving, false);
    atomic_flag_clear(&busy);
    return 0;
}
