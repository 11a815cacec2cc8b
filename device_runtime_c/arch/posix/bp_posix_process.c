/* SPDX-License-Identifier: Apache-2.0 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* unshare, O_PATH */
#endif

#include "bp_posix_process.h"

#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "bp_posix_guard.h"

#pragma weak setlocale /* in a static program only if a function uses it */

extern char **environ;

enum {
    BP_LIMITS = RLIM_NLIMITS,
    BP_STREAMS = 3,  /* stdin, stdout, stderr */
    BP_HANDLERS = 32 /* of signals below the realtime ones */
};

static struct {
    const bp_posix_image_t *image;
    bool is_program;
    bool is_kept;
    bool has_own_folder; /* the agent's thread does not share folder and umask with the host's */
    int folder;          /* -1: it cannot be opened */
    mode_t umask;
    struct rlimit limits[BP_LIMITS];
    struct itimerval alarm;
    bool has_cpu_timer[2];
    struct timespec kept_at;
    sigset_t blocked;
    struct sigaction handlers[BP_HANDLERS];
    cpu_set_t cpus;
    int priority;
    int streams[BP_STREAMS]; /* copies of the descriptors; -1: it is closed */
    int stream_flags[BP_STREAMS];
    uintptr_t environment;
    char locale[1024]; /* "": unknown */
} bp_process;

#define BP_TELL(text) (void)!write(STDERR_FILENO, "warning: " text "\n", sizeof "warning: " text)

void bp_posix_process_begin(const bp_posix_image_t *image) {
    bool is_program = image->is_program;
    bp_process.image = image;
    bp_process.is_program = is_program;
    bp_process.has_own_folder = !is_program && unshare(CLONE_FS) == 0;
    if (is_program || bp_process.has_own_folder) {
        bp_process.umask = umask(0);
        (void)umask(bp_process.umask);
    }
}

/// Timers of CPU time, standard streams, locale and environment ///

static const int bp_cpu_timer[2] = {ITIMER_VIRTUAL, ITIMER_PROF};

static bool bp_has_cpu_timer(int i) {
    struct itimerval now;
    return getitimer(bp_cpu_timer[i], &now) == 0 &&
           (now.it_value.tv_sec != 0 || now.it_value.tv_usec != 0);
}

static void bp_keep_streams(void) {
    for (int i = 0; i < BP_STREAMS; i++) {
        bp_process.stream_flags[i] = fcntl(i, F_GETFL);
        bp_process.streams[i] = fcntl(i, F_DUPFD_CLOEXEC, BP_STREAMS);
    }
}

static void bp_restore_streams(void) {
    for (int i = 0; i < BP_STREAMS; i++) {
        struct stat now, before;
        int copy = bp_process.streams[i];
        if (copy < 0 || fstat(copy, &before) != 0) {
            continue;
        }
        if (fstat(i, &now) != 0 || now.st_dev != before.st_dev || now.st_ino != before.st_ino) {
            (void)dup2(copy, i);
        }
        if (fcntl(i, F_GETFL) != bp_process.stream_flags[i]) {
            (void)fcntl(i, F_SETFL, bp_process.stream_flags[i]);
        }
        if (!bp_process.is_program) {
            (void)close(copy);
        }
    }
}

static void bp_keep_locale(void) {
    const char *now = setlocale != NULL ? setlocale(LC_ALL, NULL) : NULL;
    size_t length = now != NULL ? strlen(now) : 0;
    bp_process.locale[0] = '\0';
    if (length < sizeof bp_process.locale) {
        memcpy(bp_process.locale, now != NULL ? now : "", length + 1);
    }
}

static void bp_restore_locale(void) {
    if (bp_process.locale[0] != '\0' && strcmp(setlocale(LC_ALL, NULL), bp_process.locale) != 0) {
        (void)setlocale(LC_ALL, bp_process.locale);
    }
}

/* The C library owns the strings, so they cannot be put back. A variable that is set has another
 * one. */
static uintptr_t bp_environment(void) {
    uintptr_t sum = 0;
    for (char **variable = environ; variable != NULL && *variable != NULL; variable++) {
        sum = sum * 31 + (uintptr_t)*variable;
    }
    return sum;
}

/// Handlers of signals ///

static void bp_keep_handlers(void) {
    for (int i = 1; i < BP_HANDLERS; i++) {
        (void)sigaction(i, NULL, &bp_process.handlers[i]);
    }
}

/* Other threads of a host may have installed a handler meanwhile: it is code of another image. */
static bool bp_is_of_function(const struct sigaction *action) {
    uintptr_t handler = (uintptr_t)action->sa_handler; /* in one place with sa_sigaction */
    const bp_posix_image_t *image = bp_process.image;
    return bp_process.is_program || action->sa_handler == SIG_DFL ||
           action->sa_handler == SIG_IGN || (handler >= image->text && handler < image->text_end);
}

static void bp_restore_handlers(void) {
    for (int i = 1; i < BP_HANDLERS; i++) {
        struct sigaction now;
        const struct sigaction *before = &bp_process.handlers[i];
        if (sigaction(i, NULL, &now) == 0 &&
            (now.sa_handler != before->sa_handler || now.sa_flags != before->sa_flags) &&
            bp_is_of_function(&now)) {
            (void)sigaction(i, before, NULL);
        }
    }
}

/// All of it ///

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
    for (int i = 0; i < 2; i++) {
        bp_process.has_cpu_timer[i] = bp_has_cpu_timer(i);
    }
    bp_process.priority = getpriority(PRIO_PROCESS, 0);
    bp_keep_handlers();
    bp_keep_streams();
    bp_keep_locale();
    bp_process.environment = bp_environment();
}

static void bp_restore_limits(void) {
    for (int i = 0; i < BP_LIMITS; i++) {
        struct rlimit now;
        struct rlimit *before = &bp_process.limits[i];
        if (getrlimit(i, &now) == 0 &&
            (now.rlim_cur != before->rlim_cur || now.rlim_max != before->rlim_max) &&
            setrlimit(i, before) != 0) { /* only root raises a hard limit */
            now.rlim_cur = before->rlim_cur < now.rlim_max ? before->rlim_cur : now.rlim_max;
            (void)setrlimit(i, &now);
            BP_TELL("the function lowered a limit of the process for good");
        }
    }
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

static void bp_restore_cpu_timers(void) {
    static const struct itimerval off;
    for (int i = 0; i < 2; i++) {
        if (!bp_process.has_cpu_timer[i] && bp_has_cpu_timer(i)) {
            (void)setitimer(bp_cpu_timer[i], &off, NULL);
        }
    }
}

void bp_posix_process_restore(void) {
    bp_restore_limits();
    bp_restore_streams();
    if (bp_process.folder >= 0) { /* also if its name is gone */
        (void)fchdir(bp_process.folder);
    }
    if (bp_process.is_program || bp_process.has_own_folder) {
        (void)umask(bp_process.umask);
    }
    bp_restore_alarm();
    bp_restore_cpu_timers();
    (void)pthread_sigmask(SIG_SETMASK, &bp_process.blocked, NULL);
    bp_restore_handlers(); /* signals that were held back have found those of the function */
    bp_restore_locale();
    if (!bp_process.is_program && bp_process.folder >= 0) {
        (void)close(bp_process.folder);
    }
    cpu_set_t cpus;
    if (sched_getaffinity(0, sizeof cpus, &cpus) == 0 && !CPU_EQUAL(&cpus, &bp_process.cpus)) {
        (void)sched_setaffinity(0, sizeof bp_process.cpus, &bp_process.cpus);
    }
    if (getpriority(PRIO_PROCESS, 0) != bp_process.priority &&
        setpriority(PRIO_PROCESS, 0, bp_process.priority) != 0) { /* only root raises it */
        BP_TELL("the function lowered the priority of the process for good");
        bp_process.priority = getpriority(PRIO_PROCESS, 0);
    }
    uintptr_t environment = bp_environment();
    if (environment != bp_process.environment) {
        BP_TELL("the function changed environment variables, which stay so");
        bp_process.environment = environment;
    }
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
