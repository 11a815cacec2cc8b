/* SPDX-License-Identifier: Apache-2.0 */
/* BP_FUNCTION: register a function of a firmware project, so that the host can call and measure it.
 *
 * For C and C++. A file that uses it needs no other header of the agent. */

#ifndef BOARDPROF_BP_FUNCTION_H
#define BOARDPROF_BP_FUNCTION_H

#include "boardprof/bp_config.h"

/* Register a function that is declared above and has external linkage. In C++, use it in the
 * namespace of the function. The project's build runs `boardprof glue` on the objects. That finds
 * the registered functions, reads their parameters from the debug information (compile with -g),
 * and writes the table. If `void NAME_setup(void)` and `int NAME_check(void)` exist, it registers
 * them, too. Example: `uint32_t isqrt(uint32_t x) { ... }`, followed by `BP_FUNCTION(isqrt);`
 *
 * The macro defines a pointer that no code reads; `boardprof glue` looks for its name. With
 * -fdata-sections and --gc-sections the linker removes it; otherwise it takes the size of a
 * pointer. It keeps the compiler from removing the function or changing its parameters. */
#define BP_FUNCTION(name)                                                                   \
    static __typeof__(&(name)) const bp_function_of_##name __asm__("bp_function_of_" #name) \
        __attribute__((used)) BP_ROM = &(name)

#endif
