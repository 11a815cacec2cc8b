/* SPDX-License-Identifier: Apache-2.0 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* unshare, O_PATH */
#endif

#include "bp_posix_process.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "bp_posix_guard.h"

enum { BP_LIMITS = RLIM_NLIMITS };

static struct {
    bool is_program;
    bool is_kept;
    bool has_own_folder; /* the agent's thread does not share folder and umask with the host's */
    int folder;          /* -1: it cannot be opened */
    mode_t umask;
    struct rlimit limits[BP_LIMITS];
    struct itimerval alarm;
    struct timespec kept_at;
    sigset_t blocked;
    cpu_set_t cpus;
} bp_process;

void bp_posix_process_begin(bool is_program) {
    bp_process.is_program = is_program;
    bp_process.has_own_folder = !is_program && unshare(CLONE_FS) == 0;
    if (is_program || bp_process.has_own_folder) {
        bp_process.umask = umask(0);
        (void)umask(bp_process.umask);
    }
}

/* A program's own things are changed by functions alone, so they are read once. */
void bp_posix_process_keep(void) {
    if (bp_process.is_program && bp_process.is_kept) {
        return;
    }
    bp_process.is_kept = true;
    /* The host may have changed its folder since the last call: that of its first thread. */
    const char *folder = bp_process.has_own_folder ? "/proc/self/cwd" : ".";
    bp_process.folder = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (bp_process.has_own_folder && bp_process.folder >= 0) {
        (void)fchdir(bp_process.folder);
    }
    for (int i = 0; i < BP_LIMITS; i++) {
        (void)getrlimit(i, &bp_process.limits[i]);
    }
    (void)getitimer(ITIMER_REAL, &bp_process.alarm);
    (void)clock_gettime(CLOCK_MONOTONIC, &bp_process.kept_at);
    (void)pthread_sigmask(SIG_SETMASK, NULL, &bp_process.blocked);
    (void)sched_getaffinity(0, sizeof bp_process.cpus, &bp_process.cpus);
}

static bool bp_restore_limits(void) {
    bool restored = true;
    for (int i = 0; i < BP_LIMITS; i++) {
        struct rlimit now;
        struct rlimit *before = &bp_process.limits[i];
        if (getrlimit(i, &now) == 0 &&
            (now.rlim_cur != before->rlim_cur || now.rlim_max != before->rlim_max) &&
            setrlimit(i, before) != 0) { /* only root raises a hard limit */
            now.rlim_cur = before->rlim_cur < now.rlim_max ? before->rlim_cur : now.rlim_max;
            (void)setrlimit(i, &now);
            restored = false;
        }
    }
    return restored;
}

static int64_t bp_left_us(const struct itimerval *timer) {
    return (int64_t)timer->it_value.tv_sec * 1000000 + timer->it_value.tv_usec;
}

/* A function's own SIGALRM would end the host, and the host's would be lost. */
static void bp_restore_alarm(void) {
    enum { BP_SAME_US = 100000 };
    struct itimerval now, due = bp_process.alarm;
    struct timespec time;
    if (getitimer(ITIMER_REAL, &now) != 0 || clock_gettime(CLOCK_MONOTONIC, &time) != 0) {
        return;
    }
    int64_t left_us = bp_left_us(&due);
    if (left_us != 0) {
        left_us -= (int64_t)(time.tv_sec - bp_process.kept_at.tv_sec) * 1000000 +
                   (time.tv_nsec - bp_process.kept_at.tv_nsec) / 1000;
        if (left_us <= 0) {
            return; /* it came meanwhile */
        }
        due.it_value.tv_sec = (time_t)(left_us / 1000000);
        due.it_value.tv_usec = (suseconds_t)(left_us % 1000000);
    }
    int64_t off_us = bp_left_us(&now) - left_us;
    if (left_us == 0 ? off_us != 0 : off_us < -BP_SAME_US || off_us > BP_SAME_US) {
        (void)setitimer(ITIMER_REAL, &due, NULL);
    }
}

bool bp_posix_process_restore(void) {
    bool restored = bp_restore_limits();
    if (bp_process.folder >= 0) { /* also if its name is gone */
        (void)fchdir(bp_process.folder);
    }
    if (bp_process.is_program || bp_process.has_own_folder) {
        (void)umask(bp_process.umask);
    }
    bp_restore_alarm();
    (void)pthread_sigmask(SIG_SETMASK, &bp_process.blocked, NULL);
    if (!bp_process.is_program && bp_process.folder >= 0) {
        (void)close(bp_process.folder);
    }
    cpu_set_t cpus;
    if (sched_getaffinity(0, sizeof cpus, &cpus) == 0 && !CPU_EQUAL(&cpus, &bp_process.cpus)) {
        (void)sched_setaffinity(0, sizeof bp_process.cpus, &bp_process.cpus);
    }
    return restored;
}

/// Hard limits ///

/* Only root can raise a hard limit again. So a function changes its soft limit alone: the ldflags
 * of the boards have `-Wl,--wrap=setrlimit` and so on. */
static const struct rlimit *bp_soft_only(int resource, const struct rlimit *wanted,
                                         struct rlimit *changed) {
    struct rlimit now;
    if (wanted == NULL || !bp_posix_is_guarded() || getrlimit(resource, &now) != 0 ||
        wanted->rlim_cur > wanted->rlim_max || wanted->rlim_max > now.rlim_max) {
        return wanted; /* the system refuses the last two */
    }
    *changed = (struct rlimit){.rlim_cur = wanted->rlim_cur, .rlim_max = now.rlim_max};
    return changed;
}

#define BP_WRAP_SETRLIMIT(name)                                                        \
    int __real_##name(int resource, const struct rlimit *limit) __attribute__((weak)); \
    int __wrap_##name(int resource, const struct rlimit *limit);                       \
    int __wrap_##name(int resource, const struct rlimit *limit) {                      \
        struct rlimit changed;                                                         \
        return __real_##name(resource, bp_soft_only(resource, limit, &changed));       \
    }

#define BP_WRAP_PRLIMIT(name)                                                                      \
    int __real_##name(pid_t process, int resource, const struct rlimit *limit, struct rlimit *old) \
        __attribute__((weak));                                                                     \
    int __wrap_##name(pid_t process, int resource, const struct rlimit *limit,                     \
                      struct rlimit *old);                                                         \
    int __wrap_##name(pid_t process, int resource, const struct rlimit *limit,                     \
                      struct rlimit *old) {                                                        \
        struct rlimit changed;                                                                     \
        bool is_own = process == 0 || process == getpid();                                         \
        return __real_##name(process, resource,                                                    \
                             is_own ? bp_soft_only(resource, limit, &changed) : limit, old);       \
    }

/* On a 64-bit system both names have one type of limits. */
BP_WRAP_SETRLIMIT(setrlimit)
BP_WRAP_SETRLIMIT(setrlimit64)
BP_WRAP_PRLIMIT(prlimit)
BP_WRAP_PRLIMIT(prlimit64)
