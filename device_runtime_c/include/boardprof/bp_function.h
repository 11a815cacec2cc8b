/* SPDX-License-Identifier: Apache-2.0 */
/* BP_FUNCTION: a function of a firmware project becomes one that the host can call and measure.
 *
 * For C and C++. Nothing else of the agent is needed where it is used. */

#ifndef BOARDPROF_BP_FUNCTION_H
#define BOARDPROF_BP_FUNCTION_H

#include "boardprof/bp_config.h"

/* Register a function with the agent: it has external linkage, and C's in C++ (extern "C"), and is
 * declared above. The project's build then runs `boardprof glue` on the objects, which finds what
 * is registered, takes each one's parameters from the debug information (compile with -g), and
 * writes the table. `void NAME_setup(void)` and `int NAME_check(void)`, where they are, come along.
 * Example: `uint32_t isqrt(uint32_t x) { ... }` and behind it `BP_FUNCTION(isqrt);`
 *
 * It is a pointer that nobody reads: its name is what counts. Compiled with -fdata-sections, the
 * linker leaves it out of the image under --gc-sections; else it is the size of a pointer.
 * Meanwhile it keeps the compiler from dropping the function or changing its parameters. */
#define BP_FUNCTION(name)                                                                   \
    static __typeof__(&(name)) const bp_function_of_##name __asm__("bp_function_of_" #name) \
        __attribute__((used)) BP_ROM = &(name)

#endif
