/* SPDX-License-Identifier: Apache-2.0 */
/* Guarded calls: registers are saved, and the trap handler restores them, like longjmp. This file
 * also translates the trap to the fault that the host is sent.
 *
 * Control and status registers: RISC-V privileged manual, version 20211203. */

#include "bp_arch_guard.h"

#include "boardprof/bp_abort.h"
#include "bp_arch.h"

#if BP_CFG_GUARD

#include <stdbool.h>

#define BP_MIE_MTIE 0x80u /* 3.1.9 */
#define BP_MCAUSE_INTERRUPT ((uintptr_t)1 << (__riscv_xlen - 1))

#define BP_SAMPLE_STACK 512 /* bytes; bp_arch_guard_enter.S has the same number */

/* What a guarded call needs to return. bp_arch_guard_enter.S uses the offsets of its members. */
typedef struct {
    uintptr_t saved[14]; /* ra, sp, s0..s11 */
    uintptr_t mcause;    /* this and the following: of the trap that ended the call */
    uintptr_t mepc;
    uintptr_t mtval;
    uintptr_t ra;
    uintptr_t sp;
    uintptr_t none; /* padding: the next member is at a multiple of 8 */
#if defined(__riscv_flen)
    uint64_t fs[12];
#endif
} bp_frame_t;

/* In bp_arch_guard_enter.S. Returns whether a trap ended the body. */
bool bp_arch_guard_enter(bp_frame_t *frame, void (*body)(void *context), void *context);

static bool bp_within(uintptr_t address, const char *start, const char *end) {
    return address >= (uintptr_t)start && address < (uintptr_t)end;
}

/* Read in halves, since an instruction may begin at any even address. */
static bool bp_is_abort(const bp_arch_guard_t *board, const bp_frame_t *trap) {
    const uint16_t *half = (const uint16_t *)trap->mepc;
    return trap->mcause == 2 && bp_within(trap->mepc, board->text_start, board->text_end) &&
           ((uint32_t)half[1] << 16 | half[0]) == (uint32_t)BP_ABORT_RISCV;
}

/* An address below the stack is not enough, since an index that is far too large leads there, too.
 * A prologue may store before it moves sp (cm.push of Zcmp, by 112 bytes at most). */
static bool bp_is_overflow(const bp_arch_guard_t *board, const bp_frame_t *trap) {
    enum { PUSHED = 128 };
    return bp_within(trap->mtval, board->stack_guard_start, board->stack_guard_end) &&
           trap->sp < (uintptr_t)board->stack_guard_end + PUSHED;
}

/* The causes in mcause (3.1.15, table 3.6). */
static uint8_t bp_cause_of(const bp_arch_guard_t *board, const bp_frame_t *trap) {
    if ((trap->mcause & BP_MCAUSE_INTERRUPT) != 0) {
        return BP_FAULT_TIME_OUT; /* no other interrupt is enabled */
    }
    switch (trap->mcause) {
    case 0: /* instruction address misaligned */
    case 4: /* the same for a load and a store */
    case 6:
        return BP_FAULT_MISALIGNED;
    case 1: /* instruction access fault, and the same for a load and a store */
    case 5:
    case 7:
    case 12: /* page faults */
    case 13:
    case 15:
        return bp_is_overflow(board, trap) ? BP_FAULT_STACK_OVERFLOW : BP_FAULT_BAD_ADDRESS;
    case 2:
        return bp_is_abort(board, trap) ? BP_FAULT_ABORT : BP_FAULT_ILLEGAL_INSTRUCTION;
    case 3:
        return BP_FAULT_BREAKPOINT;
    default: /* an ecall, which nobody handles */
        return BP_FAULT_UNKNOWN;
    }
}

static uintptr_t bp_pc_of(const bp_arch_guard_t *board, const bp_frame_t *trap) {
    uintptr_t caller = trap->ra - 2;
    bool lost = !bp_within(trap->mepc, board->text_start, board->text_end);
    bool elsewhere = lost || bp_is_abort(board, trap);
    return elsewhere && bp_within(caller, board->text_start, board->text_end) ? caller : trap->mepc;
}

static void bp_explain(const bp_arch_guard_t *board, const bp_frame_t *trap, bp_fault_t *fault) {
    uint8_t cause = bp_cause_of(board, trap);
    bool touched = cause == BP_FAULT_BAD_ADDRESS || cause == BP_FAULT_MISALIGNED ||
                   cause == BP_FAULT_STACK_OVERFLOW;
    fault->cause = cause;
    fault->pc = bp_pc_of(board, trap);
    fault->address = touched ? trap->mtval : 0;
}

/* On rv32 this takes two writes. In this order no intermediate value is too early (3.2.1). */
static void bp_set_mtimecmp(uintptr_t address, uint64_t value) {
#if __riscv_xlen == 64
    *(volatile uint64_t *)address = value;
#else
    volatile uint32_t *half = (volatile uint32_t *)address;
    half[0] = UINT32_MAX;
    half[1] = (uint32_t)(value >> 32);
    half[0] = (uint32_t)value;
#endif
}

/// Sampling ///

#if BP_CFG_SAMPLING

/* The guarded call's, for the timer's handler. */
static const bp_arch_guard_t *bp_board;
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
    bp_set_mtimecmp(bp_board->mtimecmp, sample_at < bp_limit_at ? sample_at : bp_limit_at);
}

/* The timer's interrupt in a guarded call. Returns whether the limit is over. The timer is off
 * meanwhile, since thinning the samples may take a while. An interrupt may also come when nothing
 * is due any more: it was on its way. */
bool bp_arch_sample(uintptr_t pc, uintptr_t sp) {
    uint64_t now = bp_arch_counter_at(bp_board->mtime), sample_at = bp_sample_at;
    if (now >= bp_limit_at) {
        return true;
    }
    bp_set_mtimecmp(bp_board->mtimecmp, UINT64_MAX);
    if (now >= sample_at) {
        uint32_t delay = bp_sample_take(pc, sp);
        sample_at = bp_arch_counter_at(bp_board->mtime) + delay;
    }
    bp_arm(sample_at);
    bp_sample_dither();
    return false;
}

void bp_port_sample_start(uint32_t ticks) {
    bp_arm(bp_arch_counter_at(bp_board->mtime) + ticks);
    __asm__ volatile("csrs mie, %0" : : "r"(BP_MIE_MTIE) : "memory");
}

void bp_port_sample_stop(void) {
    bp_arm(UINT64_MAX);
}

static void bp_sampling_begin(const bp_arch_guard_t *board, uint64_t limit) {
    bp_board = board;
    bp_limit_at = limit != 0 ? bp_arch_counter_at(board->mtime) + limit : UINT64_MAX;
}

#else

static void bp_sampling_begin(const bp_arch_guard_t *board, uint64_t limit) {
    (void)board, (void)limit;
}

#endif

/// The call ///

void bp_arch_guard(const bp_arch_guard_t *board, void (*body)(void *context), void *context,
                   uint64_t limit, bp_fault_t *fault) {
    bp_frame_t frame;
    uintptr_t mstatus, mie;
    __asm__ volatile("csrrci %0, mstatus, 8\n" /* MIE */
                     "csrrw  %1, mie, %2\n"
                     : "=&r"(mstatus), "=r"(mie)
                     : "r"(limit != 0 ? BP_MIE_MTIE : 0u)
                     : "memory");
    bp_sampling_begin(board, limit);
    if (limit != 0) {
        bp_set_mtimecmp(board->mtimecmp, bp_arch_counter_at(board->mtime) + limit);
    }
    bool trapped = bp_arch_guard_enter(&frame, body, context);
    bp_set_mtimecmp(board->mtimecmp, UINT64_MAX);
    __asm__ volatile("csrw mie, %0\n"
                     "csrw mstatus, %1\n"
                     :
                     : "r"(mie), "r"(mstatus)
                     : "memory");
    *fault = (bp_fault_t){.cause = BP_FAULT_NONE};
    if (trapped) {
        bp_explain(board, &frame, fault);
    }
}

#endif
