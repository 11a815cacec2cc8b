/* SPDX-License-Identifier: Apache-2.0 */
/* Guarded calls: a fault or a hang in a called function becomes the ERROR of its call. The port
 * catches it (bp_port_guard); this file reports it. SPEC.md 4.2, 5.6. */

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"
#include "bp_internal.h"

#if BP_CFG_GUARD

/* [timeout_ms] -> nil */
int bp_guard(bp_call_t *call) {
    uint32_t timeout_ms = bp_arg_u32(call);
    if (bp_arg_end(call) == 0) {
        bp_agent.guard_ms = timeout_ms;
        bp_ret_nil(call);
    }
    return call->err;
}

/// Rounding, exceptions and denormals of floating point ///

/* A function may change these, and the next one must not notice: FPSCR (DDI 0403, A2.5.3), FPCR
 * (DDI 0487), fcsr (RISC-V unprivileged manual, 11.2), MXCSR and the x87 control word (Intel SDM
 * 1, 10.2.3 and 8.1.5). */
typedef struct {
    uintptr_t control;
    uint16_t x87;
} bp_float_t;

static inline void bp_float_save(bp_float_t *out) {
    (void)out;
#if defined(__x86_64__)
    __asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(out->control), "=m"(out->x87));
#elif defined(__arm__) && defined(__ARM_FP)
    __asm__ volatile("vmrs %0, fpscr" : "=r"(out->control));
#elif defined(__aarch64__)
    __asm__ volatile("mrs %0, fpcr" : "=r"(out->control));
#elif defined(__riscv_flen)
    __asm__ volatile("frcsr %0" : "=r"(out->control));
#endif
}

static inline void bp_float_restore(const bp_float_t *from) {
    (void)from;
#if defined(__x86_64__)
    __asm__ volatile("ldmxcsr %0\n\tfldcw %1" : : "m"(from->control), "m"(from->x87));
#elif defined(__arm__) && defined(__ARM_FP)
    __asm__ volatile("vmsr fpscr, %0" : : "r"(from->control));
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(from->control));
#elif defined(__riscv_flen)
    __asm__ volatile("fscsr %0" : : "r"(from->control));
#endif
}

/// Calls ///

bool bp_guarded(bp_call_t *call, void (*body)(void *context), void *context) {
    bp_fault_t *fault = &bp_agent.fault;
    bp_float_t before;
    bp_float_save(&before);
    bp_port_guard(body, context, bp_agent.guard_ms, fault);
    bp_float_restore(&before);
    if (fault->cause == BP_FAULT_NONE) {
        return true;
    }
    /* Not bp_fail, which keeps the first error: a packed function may have set an error before it
     * trapped. */
    bool hung = fault->cause == BP_FAULT_TIME_OUT;
    call->err = hung ? BP_ERR_TIMEOUT : BP_ERR_FAULT;
    call->detail = hung ? bp_agent.guard_ms : fault->cause;
    return false;
}

typedef struct {
    bp_packed_t *packed;
    bp_call_t *call;
} bp_packed_call_t;

static void bp_packed_body(void *context) {
    const bp_packed_call_t *c = context;
    bp_fail(c->call, c->packed(c->call), 0);
}

int bp_guarded_packed(bp_call_t *call, bp_packed_t *packed) {
    bp_packed_call_t c = {.packed = packed, .call = call};
    bp_guarded(call, bp_packed_body, &c);
    return call->err;
}

void bp_ret_error(bp_call_t *call, uint8_t code, uint32_t detail) {
    bool trapped = bp_agent.fault.cause != BP_FAULT_NONE;
    bp_ret_array(call, trapped ? 4 : 2);
    bp_ret_uint(call, code);
    bp_ret_uint(call, detail);
    if (trapped) {
        bp_ret_u64(call, bp_agent.fault.pc);
        bp_ret_u64(call, bp_agent.fault.address);
    }
}

#endif
