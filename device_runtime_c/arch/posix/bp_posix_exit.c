/* SPDX-License-Identifier: Apache-2.0 */
/* A function that calls exit() or the like ends its call, not the process.
 *
 * `-Wl,--wrap=exit` and so on in the board's ldflags redirect the functions' calls here, but not
 * calls within libc: exit has run atexit handlers by then, and cannot be undone. */

#include "bp_posix_guard.h"

#define BP_WRAP(name)                                             \
    _Noreturn void __real_##name(int status)                      \
        __attribute__((weak)); /* defined only with the option */ \
    _Noreturn void __wrap_##name(int status);                     \
    _Noreturn void __wrap_##name(int status) {                    \
        bp_posix_exit_guarded(__builtin_return_address(0));       \
        __real_##name(status);                                    \
    }

BP_WRAP(exit)
BP_WRAP(_exit)
BP_WRAP(_Exit)
BP_WRAP(quick_exit)
