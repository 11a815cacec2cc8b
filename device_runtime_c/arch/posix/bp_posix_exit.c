/* SPDX-License-Identifier: Apache-2.0 */
/* A function that wants to end the process ends its call.
 *
 * With `-Wl,--wrap=exit` and so on in the board's ldflags the functions' own calls come here. What
 * is called within libc does not: exit has run atexit handlers by then, from which there is no
 * sound way back. */

#include "bp_posix_guard.h"

#define BP_WRAP(name)                                           \
    _Noreturn void __real_##name(int status)                    \
        __attribute__((weak)); /* there only with the option */ \
    _Noreturn void __wrap_##name(int status);                   \
    _Noreturn void __wrap_##name(int status) {                  \
        bp_posix_exit_guarded(__builtin_return_address(0));     \
        __real_##name(status);                                  \
    }

BP_WRAP(exit)
BP_WRAP(_exit)
BP_WRAP(_Exit)
BP_WRAP(quick_exit)
