/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the static constructors of the functions' code: those of C++ objects, C functions with
 * __attribute__((constructor)), and gcov's. Linked only into images that have any.
 *
 * The link script in this folder takes them from the system's start-up. So they are guarded like
 * calls, and a constructor that traps is the ERROR of each call (SPEC.md 4.2). The functions here
 * replace those of the agent (--wrap). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../src/bp_internal.h"
#include "boardprof/bp.h"
#include "boardprof/bp_port.h"

#ifdef __linux__
#include "bp_posix_image.h"
#endif

typedef void bp_constructor_t(int argc, char **argv, char **envp);

extern bp_constructor_t *const bp_constructors_start[];
extern bp_constructor_t *const bp_constructors_end[];

static void bp_construct(void *context) {
    static char *none[] = {NULL};
    bp_constructor_t *const *constructor = context;
    (*constructor)(0, none, none);
}

/* Call constructors until one fails. */
static void bp_construct_all(bool (*run)(bp_constructor_t *const *constructor)) {
    bp_constructor_t *const *each = bp_constructors_start;
    while (each != bp_constructors_end && run(each)) {
        each++;
    }
}

#if BP_CFG_GUARD

/// With a guard, before the first call ///

/* Not at start-up: an agent that a constructor keeps busy could not say so, and the limit of time
 * is that of the call. */

static bool bp_has_begun;
static bp_fault_t bp_failed;
static uintptr_t bp_failed_at;
static uint32_t bp_limit_ms;

void __real_bp_port_guard(void (*body)(void *context), void *context, uint32_t timeout_ms,
                          bp_fault_t *fault);
void __wrap_bp_port_guard(void (*body)(void *context), void *context, uint32_t timeout_ms,
                          bp_fault_t *fault);
void __real_bp_ret_error(bp_call_t *call, uint8_t code, uint32_t detail);
void __wrap_bp_ret_error(bp_call_t *call, uint8_t code, uint32_t detail);

static uintptr_t bp_in_file(bp_constructor_t *constructor) {
    uintptr_t bias = 0;
#ifdef __linux__
    bp_posix_image_t image;
    bp_posix_image_find(&image);
    bias = image.bias;
#endif
    return (uintptr_t)constructor - bias;
}

static bool bp_run_guarded(bp_constructor_t *const *constructor) {
    __real_bp_port_guard(bp_construct, (void *)(uintptr_t)constructor, bp_limit_ms, &bp_failed);
    bp_failed_at = bp_in_file(*constructor);
    return bp_failed.cause == BP_FAULT_NONE;
}

/* If a constructor has failed, the objects are not as they should be, and no function is called. */
void __wrap_bp_port_guard(void (*body)(void *context), void *context, uint32_t timeout_ms,
                          bp_fault_t *fault) {
    if (!bp_has_begun) {
        bp_has_begun = true;
        bp_limit_ms = timeout_ms;
        bp_construct_all(bp_run_guarded);
    }
    if (bp_failed.cause == BP_FAULT_NONE) {
        __real_bp_port_guard(body, context, timeout_ms, fault);
    } else {
        *fault = bp_failed;
    }
}

void __wrap_bp_ret_error(bp_call_t *call, uint8_t code, uint32_t detail) {
    if (bp_failed.cause == BP_FAULT_NONE || bp_agent.fault.cause == BP_FAULT_NONE) {
        __real_bp_ret_error(call, code, detail);
        return;
    }
    bp_ret_array(call, 5);
    bp_ret_uint(call, code);
    bp_ret_uint(call, code == -BP_ERR_TIMEOUT ? bp_limit_ms : detail);
    bp_ret_u64(call, bp_failed.pc);
    bp_ret_u64(call, bp_failed.address);
    bp_ret_u64(call, bp_failed_at);
}

#else

/// Without a guard, at start-up ///

_Noreturn void __real_bp_serve(void);
_Noreturn void __wrap_bp_serve(void);

static bool bp_run(bp_constructor_t *const *constructor) {
    bp_construct((void *)(uintptr_t)constructor);
    return true;
}

void __wrap_bp_serve(void) {
    bp_construct_all(bp_run);
    __real_bp_serve();
}

#endif
