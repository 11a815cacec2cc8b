/* SPDX-License-Identifier: Apache-2.0 */

/* libc's check of longjmp would reject a jump from one stack to another. */
#undef _FORTIFY_SOURCE

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* SIGEV_THREAD_ID, dl_iterate_phdr */
#endif

#include "bp_posix_guard.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"
#include "bp_posix_fault.h"
#include "bp_posix_image.h"
#include "bp_posix_process.h"
#include "bp_posix_stack.h"

#if BP_CFG_GUARD

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum {
    BP_SIGNALS = 7,
    BP_HANDLER_STACK = 65536, /* the unwinder's frames, and twice the widest vector registers */
};

static struct {
    bp_posix_image_t image;
    pthread_t thread; /* the owner of the timer */
    pid_t process;    /* the owner of this state: a child that a function forks has a copy of it */
    timer_t timer;
    uintptr_t stack_end; /* the lowest address of the stack that functions run on */
    bool has_timer;
    bool is_ready;     /* everything above is valid */
    bool is_child;     /* a guarded function has forked this process */
    bool is_installed; /* our handlers are in the chain of all signals below */
    struct sigaction before[BP_SIGNALS];
    stack_t stack_before;
    uint64_t deadline_ns;        /* of the guarded call; 0 if it has no limit */
    volatile uint64_t expiry_ns; /* when the timer's signal is due; 0: it is off */
    bp_fault_t fault;
    sigset_t mask; /* of the function that trapped */
    sigjmp_buf way_back;
    volatile sig_atomic_t is_guarded;
    volatile sig_atomic_t is_unwinding;
} bp_posix_guard;

static _Alignas(16) uint8_t bp_handler_stack[BP_HANDLER_STACK];

/* The last signal is the timer's: a realtime signal, which nobody else uses. Emulators of user
 * space keep the highest ones for themselves; QEMU 10 keeps four. */
static int bp_signal(int index) {
    static const int fixed[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT};
    return index < BP_SIGNALS - 1 ? fixed[index] : SIGRTMAX - 4;
}

static uint64_t bp_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool bp_is_mine(void) {
    return bp_posix_guard.is_guarded && pthread_equal(pthread_self(), bp_posix_guard.thread) &&
           getpid() == bp_posix_guard.process;
}

/// Handlers ///

_Noreturn static void bp_go_back(void) {
    bp_posix_guard.is_guarded = 0;
    bp_posix_guard.is_unwinding = 0;
    siglongjmp(bp_posix_guard.way_back, 1);
}

/* The same from a signal handler, which may itself have interrupted another one. */
_Noreturn static void bp_return_from_signal(void) {
    bp_posix_guard.is_guarded = 0; /* signals held back arrive now, and are not for us */
    (void)pthread_sigmask(SIG_SETMASK, &bp_posix_guard.mask, NULL);
    bp_go_back();
}

/* Let the timer's signal come in `wait_ns`; 0: never. */
static void bp_arm(uint64_t now_ns, uint64_t wait_ns) {
    struct itimerspec wait = {.it_value = {.tv_sec = (time_t)(wait_ns / 1000000000u),
                                           .tv_nsec = (long)(wait_ns % 1000000000u)}};
    bp_posix_guard.expiry_ns = wait_ns != 0 ? now_ns + wait_ns : 0;
    (void)timer_settime(bp_posix_guard.timer, 0, &wait, NULL);
}

static bool bp_is_timer(int number, const siginfo_t *info) {
    return number == bp_signal(BP_SIGNALS - 1) && info->si_code == SI_TIMER &&
           info->si_ptr == &bp_posix_guard;
}

/* The timer has expired. Returns whether the guarded call must end; it may have begun only later.
 */
static bool bp_is_over(void) {
    uint64_t now = bp_now_ns();
    uint64_t deadline = bp_is_mine() ? bp_posix_guard.deadline_ns : 0;
    bp_posix_guard.expiry_ns = 0;
    if (now < deadline) {
        bp_arm(now, deadline - now);
    }
    return deadline != 0 && now >= deadline;
}

/* Whether the CPU, raise() or abort() raised the signal, and not another process. */
static bool bp_is_own_fault(int number, const siginfo_t *info) {
    return bp_is_mine() && number != bp_signal(BP_SIGNALS - 1) &&
           (info->si_code > 0 || (info->si_code == SI_TKILL && info->si_pid == getpid()));
}

/* Do what would have happened without this handler. */
static void bp_pass_on(int number, siginfo_t *info, void *context) {
    int i = 0;
    while (bp_signal(i) != number) {
        i++;
    }
    const struct sigaction *before = &bp_posix_guard.before[i];
    if (before->sa_flags & SA_SIGINFO) {
        before->sa_sigaction(number, info, context);
    } else if (before->sa_handler != SIG_DFL && before->sa_handler != SIG_IGN) {
        before->sa_handler(number);
    } else if (info->si_code > 0 || before->sa_handler == SIG_DFL) { /* faults cannot be ignored */
        (void)signal(number, SIG_DFL);
        (void)raise(number);
    }
}

static void bp_on_signal(int number, siginfo_t *info, void *context) {
    if (bp_posix_guard.is_unwinding && bp_is_mine()) {
        bp_return_from_signal(); /* the stack is destroyed: no pc */
    }
    bool is_timer = bp_is_timer(number, info);
    if (is_timer ? !bp_is_over() : !bp_is_own_fault(number, info)) {
        if (!is_timer) {
            bp_pass_on(number, info, context);
        }
        return;
    }
    const ucontext_t *interrupted = context;
    bp_posix_guard.mask = interrupted->uc_sigmask;
    bp_posix_guard.fault = bp_posix_fault(number, info, context, bp_posix_guard.stack_end);
    bp_posix_guard.is_unwinding = 1;
    bp_posix_guard.fault.pc =
        bp_posix_pc(&bp_posix_guard.image, context, bp_posix_trapped_at(number, info, context));
    bp_return_from_signal();
}

static bool bp_is_ours(const struct sigaction *action) {
    return (action->sa_flags & SA_SIGINFO) != 0 && action->sa_sigaction == bp_on_signal;
}

static void bp_install(void) {
    struct sigaction ours = {.sa_sigaction = bp_on_signal,
                             .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART | SA_NODEFER};
    sigemptyset(&ours.sa_mask);
    sigaddset(&ours.sa_mask, bp_signal(BP_SIGNALS - 1));
    for (int i = 0; i < BP_SIGNALS; i++) { /* the handler may run in another thread at once */
        (void)sigaction(bp_signal(i), NULL, &bp_posix_guard.before[i]);
        (void)sigaction(bp_signal(i), &ours, NULL);
    }
    bp_posix_guard.is_installed = true;
}

/* Only if nobody has installed a handler after ours, which would keep calling ours. */
static void bp_uninstall(void) {
    struct sigaction now;
    for (int i = 0; i < BP_SIGNALS; i++) {
        if (sigaction(bp_signal(i), NULL, &now) != 0 || !bp_is_ours(&now)) {
            return;
        }
    }
    for (int i = 0; i < BP_SIGNALS; i++) {
        (void)sigaction(bp_signal(i), &bp_posix_guard.before[i], NULL);
    }
    bp_posix_guard.is_installed = false;
}

/// Begin and end ///

static int bp_swap_handlers(struct dl_phdr_info *info, size_t size, void *install) {
    (void)info;
    (void)size;
    if (install != NULL) {
        bp_install();
    } else {
        bp_uninstall();
    }
    return 1;
}

/* A child that a function forks has a copy of everything, and would be a second agent on the line.
 */
static void bp_on_fork(void) {
    bp_posix_guard.is_child =
        bp_posix_guard.is_guarded && pthread_equal(pthread_self(), bp_posix_guard.thread);
}

static void bp_thread_begin(void) {
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID,
                             .sigev_signo = bp_signal(BP_SIGNALS - 1),
                             .sigev_value.sival_ptr = &bp_posix_guard};
    event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
    if (bp_posix_guard.process == 0) { /* only once, since it cannot be undone */
        (void)pthread_atfork(NULL, NULL, bp_on_fork);
    }
    bp_posix_image_find(&bp_posix_guard.image);
    bp_posix_process_begin(&bp_posix_guard.image);
    memset(bp_handler_stack, 0, sizeof bp_handler_stack); /* so that its page faults come now */
    bp_posix_guard.has_timer = timer_create(CLOCK_MONOTONIC, &event, &bp_posix_guard.timer) == 0;
    bp_posix_guard.stack_end = bp_posix_stack_lowest();
    bp_posix_guard.thread = pthread_self();
    bp_posix_guard.process = getpid();
    bp_posix_guard.is_ready = true;
}

void bp_posix_guard_end(void) {
    if (bp_posix_guard.has_timer) {
        (void)timer_delete(bp_posix_guard.timer);
    }
    bp_posix_guard.expiry_ns = 0;
    bp_posix_guard.has_timer = bp_posix_guard.is_ready = false;
}

static void bp_enter(void) {
    if (!bp_posix_guard.is_ready) {
        bp_thread_begin();
    }
    const stack_t ours = {.ss_sp = bp_handler_stack, .ss_size = sizeof bp_handler_stack};
    (void)sigaltstack(&ours, &bp_posix_guard.stack_before);
    if (!bp_posix_guard.is_installed) {
        /* Another board in this process may be doing the same right now. The loader calls back
         * under a lock that all images share. No other lock is shared by all of them. */
        (void)dl_iterate_phdr(bp_swap_handlers, &bp_posix_guard);
    }
}

static void bp_leave(void) {
    if (!bp_posix_guard.image.is_program) {
        (void)dl_iterate_phdr(bp_swap_handlers, NULL);
        if (bp_posix_guard.is_installed) { /* from now on this image must not be unloaded */
            (void)dlopen(bp_posix_guard.image.name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
        }
        (void)sigaltstack(&bp_posix_guard.stack_before, NULL);
    }
}

/* Setting a timer is a system call, and two for each call would be expensive. A program keeps its
 * timer on, and sets it again only when less than half of the limit is left. So nothing interrupts
 * a call that takes less than that. A longer call may be interrupted once, to set the timer again.
 */
static void bp_begin_limit(uint32_t timeout_ms) {
    if (timeout_ms != 0) {
        uint64_t now = bp_now_ns();
        uint64_t limit = (uint64_t)timeout_ms * 1000000u;
        uint64_t expiry = bp_posix_guard.expiry_ns;
        bp_posix_guard.deadline_ns = now + limit;
        if (expiry < now + limit / 2 || expiry > now + limit) {
            bp_arm(now, limit);
        }
    } else if (bp_posix_guard.expiry_ns != 0) {
        bp_arm(0, 0); /* of an earlier call: it would expire in a measured window */
    }
}

static void bp_end_limit(void) {
    bp_posix_guard.deadline_ns = 0;
    if (!bp_posix_guard.image.is_program && bp_posix_guard.expiry_ns != 0) {
        bp_arm(0, 0); /* its signal would find no handler */
    }
}

void bp_port_guard(void (*body)(void *context), void *context, uint32_t timeout_ms,
                   bp_fault_t *fault) {
    bp_enter();
    bp_posix_process_keep();
    if (timeout_ms != 0 && !bp_posix_guard.has_timer) {
        /* No function runs without the limit that was asked for. */
        static const char told[] = "error: there is no timer to end a call, so no function runs\n";
        (void)!write(STDERR_FILENO, told, sizeof told - 1);
        bp_posix_guard.fault = (bp_fault_t){.cause = BP_FAULT_UNKNOWN};
    } else if (sigsetjmp(bp_posix_guard.way_back, 0) == 0) {
        bp_posix_guard.fault = (bp_fault_t){.cause = BP_FAULT_NONE};
        bp_begin_limit(timeout_ms);
        bp_posix_guard.is_guarded = 1;
        bp_posix_stack_call(body, context);
        bp_posix_guard.is_guarded = 0;
        if (bp_posix_guard.is_child) {
            (void)syscall(SYS_exit_group, 0);
        }
    }
    bp_posix_process_restore();
    bp_end_limit();
    bp_leave();
    *fault = bp_posix_guard.fault;
}

bool bp_posix_is_guarded(void) {
    return bp_is_mine();
}

void bp_posix_exit_guarded(const void *caller) {
    uintptr_t back = (uintptr_t)caller;
#ifdef __arm__
    back &= ~(uintptr_t)1; /* it marks Thumb code */
#endif
    if (bp_is_mine()) {
        bp_posix_guard.fault = (bp_fault_t){
            .cause = BP_FAULT_ABORT,
            .pc = back - 1 - bp_posix_guard.image.bias,
        };
        bp_go_back();
    }
}

#else

void bp_posix_guard_end(void) {
}

bool bp_posix_is_guarded(void) {
    return false;
}

void bp_posix_exit_guarded(const void *caller) {
    (void)caller;
}

#endif
