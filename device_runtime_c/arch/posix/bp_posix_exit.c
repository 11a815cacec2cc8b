/* SPDX-License-Identifier: Apache-2.0 */
/* A function that calls exit() or the like ends its call, not the process.
 *
 * `-Wl,--wrap=exit` and so on in the board's ldflags redirect the functions' calls here, but not
 * calls within libc: exit has run atexit handlers by then, and cannot be undone. */

#include <stdarg.h>
#include <stddef.h>

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

/* Static programs wrap abort, too: 32-bit Arm's libc cannot be unwound to its caller. */
_Noreturn void __real_abort(void) __attribute__((weak));
_Noreturn void __wrap_abort(void);
_Noreturn void __wrap_abort(void) {
    bp_posix_exit_guarded(__builtin_return_address(0));
    __real_abort();
}

/// Another program in place of this one ///

/* Only a child of the function may become one. Not in static programs, which would have to link
 * all of these. */
#define BP_WRAP_EXEC(name, parameters, arguments)           \
    int __real_##name parameters __attribute__((weak));     \
    int __wrap_##name parameters;                           \
    int __wrap_##name parameters {                          \
        bp_posix_exit_guarded(__builtin_return_address(0)); \
        return __real_##name arguments;                     \
    }

typedef char *const *bp_texts_t;

BP_WRAP_EXEC(execve, (const char *path, bp_texts_t argv, bp_texts_t envp), (path, argv, envp))
BP_WRAP_EXEC(execvpe, (const char *file, bp_texts_t argv, bp_texts_t envp), (file, argv, envp))
BP_WRAP_EXEC(execv, (const char *path, bp_texts_t argv), (path, argv))
BP_WRAP_EXEC(execvp, (const char *file, bp_texts_t argv), (file, argv))
BP_WRAP_EXEC(fexecve, (int file, bp_texts_t argv, bp_texts_t envp), (file, argv, envp))

#define BP_ARGUMENTS_MOST 1024

/* Those with a list of arguments, which ends with NULL. */
#define BP_WRAP_EXEC_LIST(name, call)                                    \
    int __wrap_##name(const char *path, const char *argument, ...);      \
    int __wrap_##name(const char *path, const char *argument, ...) {     \
        const char *argv[BP_ARGUMENTS_MOST] = {argument};                \
        va_list more;                                                    \
        bp_posix_exit_guarded(__builtin_return_address(0));              \
        va_start(more, argument);                                        \
        for (int i = 0; argv[i] != NULL && i + 2 < BP_ARGUMENTS_MOST;) { \
            argv[++i] = va_arg(more, const char *);                      \
        }                                                                \
        int result = call;                                               \
        va_end(more);                                                    \
        return result;                                                   \
    }

BP_WRAP_EXEC_LIST(execl, __real_execv(path, (bp_texts_t)argv))
BP_WRAP_EXEC_LIST(execlp, __real_execvp(path, (bp_texts_t)argv))
BP_WRAP_EXEC_LIST(execle, __real_execve(path, (bp_texts_t)argv, va_arg(more, bp_texts_t)))
