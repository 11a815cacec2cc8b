/* SPDX-License-Identifier: Apache-2.0 */
/* Guarded calls: registers are saved, and the handler restores them, like longjmp. This file also
 * translates the exception to the fault that the host is sent.
 *
 * Arm Architecture Reference Manual for A-profile (DDI 0487), "AArch64 System Register
 * Descriptions": ESR_EL1 (its field EC, and DFSC for data aborts), ELR_EL1, FAR_EL1. */

#include "bp_arch_guard.h"

#include "bp_arch.h"

#if BP_CFG_GUARD

#include <stdbool.h>

#define BP_SAMPLE_STACK 2048 /* bytes; bp_arch_guard_enter.S has the same number */

/* What a guarded call needs to return. bp_arch_guard_enter.S uses the offsets of its members. */
typedef struct {
    uint64_t saved[14]; /* x19..x30, sp, and padding */
    uint64_t kind;      /* of the exception that ended it: 0 synchronous, 1 IRQ, 2 FIQ, 3 SError */
    uint64_t esr;       /* of the same exception */
    uint64_t elr;
    uint64_t far;
    uint64_t lr; /* x30 */
    uint64_t sp;
    uint64_t ds[8]; /* d8..d15 */
} bp_frame_t;

/* In bp_arch_guard_enter.S. Returns whether an exception ended the body. */
bool bp_arch_guard_enter(bp_frame_t *frame, void (*body)(void *context), void *context);

static bool bp_within(uint64_t address, const char *start, const char *end) {
    return address >= (uintptr_t)start && address < (uintptr_t)end;
}

/* An address below the stack is not enough, since an index that is far too large leads there, too.
 * A prologue may store and move sp in one instruction (STP, by 1024 bytes at most); if it faults,
 * sp has not moved. */
static uint8_t bp_bad_address(const bp_arch_guard_t *board, const bp_frame_t *trap) {
    enum { PUSHED = 1024 };
    bool below = bp_within(trap->far, board->stack_guard_start, board->stack_guard_end);
    bool at_end = trap->sp <= (uintptr_t)board->stack_guard_end + PUSHED;
    return below && at_end ? BP_FAULT_STACK_OVERFLOW : BP_FAULT_BAD_ADDRESS;
}

/* The values of ESR_EL1.EC. */
static uint8_t bp_cause_of(const bp_arch_guard_t *board, const bp_frame_t *trap) {
    enum { ALIGNMENT = 0x21 }; /* DFSC, in the low six bits of a data abort's ISS */
    if (trap->kind != 0) {
        return trap->kind == 1 ? BP_FAULT_TIME_OUT : BP_FAULT_UNKNOWN; /* no other is enabled */
    }
    switch (trap->esr >> 26 & 63) {
    case 0x00: /* undefined */
    case 0x07: /* floating point is off */
    case 0x0e: /* illegal execution state */
    case 0x18: /* a system register that cannot be accessed */
        return BP_FAULT_ILLEGAL_INSTRUCTION;
    case 0x20: /* instruction abort, from a lower level and from this one */
    case 0x21:
        return BP_FAULT_BAD_ADDRESS;
    case 0x22: /* PC alignment; a jump to a wild address causes this, too */
        return bp_within(trap->elr, board->text_start, board->text_end) ? BP_FAULT_MISALIGNED
                                                                        : BP_FAULT_BAD_ADDRESS;
    case 0x24: /* data abort, likewise */
    case 0x25:
        return (trap->esr & 63) == ALIGNMENT ? BP_FAULT_MISALIGNED : bp_bad_address(board, trap);
    case 0x26: /* SP alignment */
        return BP_FAULT_MISALIGNED;
    case 0x3c: /* BRK */
        return BP_FAULT_BREAKPOINT;
    default: /* an SVC, which nobody handles */
        return BP_FAULT_UNKNOWN;
    }
}

static uint64_t bp_pc_of(const bp_arch_guard_t *board, const bp_frame_t *trap) {
    uint64_t caller = trap->lr - 4;
    bool lost = !bp_within(trap->elr, board->text_start, board->text_end) &&
                bp_within(caller, board->text_start, board->text_end);
    return lost ? caller : trap->elr;
}

static void bp_explain(const bp_arch_guard_t *board, const bp_frame_t *trap, bp_fault_t *fault) {
    uint8_t cause = bp_cause_of(board, trap);
    bool touched = cause == BP_FAULT_BAD_ADDRESS || cause == BP_FAULT_MISALIGNED ||
                   cause == BP_FAULT_STACK_OVERFLOW;
    fault->cause = cause;
    fault->pc = bp_pc_of(board, trap);
    fault->address = touched ? trap->far : 0;
}

/// Sampling ///

#if BP_CFG_SAMPLING

static uint64_t bp_limit_at;                        /* UINT64_MAX: no limit */
static volatile uint64_t bp_sample_at = UINT64_MAX; /* when the next sample is due; that: never */

/* Called by the trap handler. Its stack is this one, since the function's own may be full. */
bool bp_arch_sample(uintptr_t pc, uintptr_t sp);
extern uint8_t bp_sample_stack[BP_SAMPLE_STACK];
_Alignas(16) uint8_t bp_sample_stack[BP_SAMPLE_STACK];

/* Arm the timer, which has only one comparator: for the sample or for the limit, whichever comes
 * first. */
static void bp_arm(uint64_t sample_at) {
    bp_sample_at = sample_at;
    BP_ARCH_WRITE(cntv_cval_el0, sample_at < bp_limit_at ? sample_at : bp_limit_at);
}

/* The timer's interrupt in a guarded call. Returns whether the limit is over. An interrupt may also
 * come when nothing is due any more: it was on its way. */
bool bp_arch_sample(uintptr_t pc, uintptr_t sp) {
    uint64_t now = bp_arch_ticks(), sample_at = bp_sample_at;
    if (now >= bp_limit_at) {
        return true;
    }
    if (now >= sample_at) {
        uint32_t delay = bp_sample_take(pc, sp);
        sample_at = bp_arch_ticks() + delay;
    }
    bp_arm(sample_at);
    bp_sample_dither();
    return false;
}

void bp_port_sample_start(uint32_t ticks) {
    bp_arm(bp_arch_ticks() + ticks);
    BP_ARCH_WRITE(cntv_ctl_el0, 1); /* ENABLE */
}

void bp_port_sample_stop(void) {
    bp_arm(UINT64_MAX);
}

static void bp_sampling_begin(uint64_t limit) {
    bp_limit_at = limit != 0 ? bp_arch_ticks() + limit : UINT64_MAX;
}

#else

static void bp_sampling_begin(uint64_t limit) {
    (void)limit;
}

#endif

/// The call ///

void bp_arch_guard(const bp_arch_guard_t *board, void (*body)(void *context), void *context,
                   uint64_t limit, bp_fault_t *fault) {
    bp_frame_t frame;
    uint64_t daif = BP_ARCH_READ(daif);
    __asm__ volatile("msr daifset, #15" : : : "memory");
    bp_sampling_begin(limit);
    if (limit != 0) {
        BP_ARCH_WRITE(cntv_cval_el0, bp_arch_ticks() + limit);
        BP_ARCH_WRITE(cntv_ctl_el0, 1); /* ENABLE */
    }
    bool trapped = bp_arch_guard_enter(&frame, body, context);
    BP_ARCH_WRITE(cntv_ctl_el0, 0); /* this also clears its interrupt */
    BP_ARCH_WRITE(daif, daif);
    *fault = (bp_fault_t){.cause = BP_FAULT_NONE};
    if (trapped) {
        bp_explain(board, &frame, fault);
    }
}

#endif
