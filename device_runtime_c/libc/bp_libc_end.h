/* SPDX-License-Identifier: Apache-2.0 */
/* The system calls that both C libraries need. Each bp_libc.c includes it once, and before that
 * defines how its library spells their names: BP_LIBC_NAME(sbrk).
 *
 * exit(), abort() and the like end the call of the function, not the program. All of them are weak,
 * so that a program may define its own. exit() runs no atexit handlers and does not flush an
 * unfinished line of stdio, since the caller could not be determined after that. */

#ifndef BP_LIBC_END_H
#define BP_LIBC_END_H

#include <errno.h>
#include <stddef.h>

#include "boardprof/bp_abort.h"
#include "boardprof/bp_port.h"

#define BP_ENDS __attribute__((weak)) _Noreturn

BP_ENDS void abort(void);
BP_ENDS void exit(int status);
BP_ENDS void _Exit(int status);
BP_ENDS void _exit(int status);
BP_ENDS void __assert_func(const char *file, int line, const char *function, const char *text);

BP_ENDS void abort(void) {
    bp_abort_from(__builtin_return_address(0));
}

BP_ENDS void exit(int status) {
    (void)status;
    bp_abort_from(__builtin_return_address(0));
}

BP_ENDS void _Exit(int status) {
    (void)status;
    bp_abort_from(__builtin_return_address(0));
}

BP_ENDS void _exit(int status) {
    (void)status;
    bp_abort_from(__builtin_return_address(0));
}

_Noreturn int BP_LIBC_NAME(kill)(int process, int signal);
int BP_LIBC_NAME(getpid)(void);

_Noreturn int BP_LIBC_NAME(kill)(int process, int signal) {
    (void)process;
    (void)signal;
    bp_abort_from(__builtin_return_address(0));
}

int BP_LIBC_NAME(getpid)(void) {
    return 1;
}

#if BP_LIBC_HEAP

void *BP_LIBC_NAME(sbrk)(ptrdiff_t change);

static ptrdiff_t bp_libc_taken;
static uint32_t bp_libc_refused;

/* For malloc. A call that a guard ends leaves its blocks allocated until the next reset. If it is
 * ended within malloc() or free(), the heap may be corrupt until then. */
void *BP_LIBC_NAME(sbrk)(ptrdiff_t change) {
    static _Alignas(16) char heap[BP_LIBC_HEAP];
    if (change > BP_LIBC_HEAP - bp_libc_taken || change < -bp_libc_taken) {
        bp_libc_refused++;
        errno = ENOMEM;
        return (void *)-1;
    }
    bp_libc_taken += change;
    return heap + bp_libc_taken - change;
}

/* Some requests are refused without a call of sbrk(): those that are larger than any heap. */
static inline uint32_t bp_libc_refusals(void) {
    if (errno == ENOMEM) {
        errno = 0;
        bp_libc_refused++;
    }
    return bp_libc_refused;
}

#endif

static void bp_libc_print(const char *text) {
    size_t length = 0;
    while (text[length] != '\0') {
        length++;
    }
    bp_port_write((const uint8_t *)text, length);
}

/* Called by these libraries' assert() when it fails. */
BP_ENDS void __assert_func(const char *file, int line, const char *function, const char *text) {
    char digits[12];
    char *digit = digits + sizeof digits - 1;
    *digit = '\0';
    do {
        *--digit = (char)('0' + line % 10);
        line /= 10;
    } while (line > 0);
    const char *parts[] = {
        file, ":", digit, ": assertion `", text, "` failed in ", function != NULL ? function : "?",
        "\n"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        bp_libc_print(parts[i]);
    }
    bp_abort_from(__builtin_return_address(0));
}

#endif
