/* SPDX-License-Identifier: Apache-2.0 */
/* What a function of the user's ends a program with ends its call. Included once by each bp_libc.c.
 *
 * All are weak: a program may have its own. exit() runs no atexit handlers, and does not flush what
 * stdio holds of a line that has not ended: from there the caller could not be told. */

#ifndef BP_LIBC_END_H
#define BP_LIBC_END_H

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

static void bp_libc_print(const char *text) {
    size_t length = 0;
    while (text[length] != '\0') {
        length++;
    }
    bp_port_write((const uint8_t *)text, length);
}

/* A failed assert(), as these libraries' headers call it. */
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
