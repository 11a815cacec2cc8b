/* SPDX-License-Identifier: Apache-2.0 */
/* Guarded calls: the exception handler, and what it reports to the host.
 *
 * ARMv7-M Architecture Reference Manual (DDI 0403): exceptions B1.5, special registers B1.4, system
 * control B3.2. ARMv6-M (DDI 0419) has the same at the same addresses, except the fault status. */

#include "bp_arch_guard.h"
#include "bp_arch_guard_enter.h"

#if BP_CFG_GUARD

#include <stddef.h>

#include "boardprof/bp_abort.h"

#if !defined(__ARM_ARCH_6M__) && !defined(__ARM_ARCH_8M_BASE__)
#define BP_HAS_FAULT_STATUS 1
#else
#define BP_HAS_FAULT_STATUS 0
#endif

#define BP_CCR (*(volatile uint32_t *)0xe000ed14u)
#define BP_CCR_DIV_0_TRP (1u << 4)
#define BP_SHCSR (*(volatile uint32_t *)0xe000ed24u)
#define BP_SHCSR_FAULTS (7u << 16) /* MemManage, BusFault and UsageFault enabled */
#define BP_CFSR (*(volatile uint32_t *)0xe000ed28u)
#define BP_HFSR (*(volatile uint32_t *)0xe000ed2cu)
#define BP_DFSR (*(volatile uint32_t *)0xe000ed30u)
#define BP_MMFAR (*(volatile uint32_t *)0xe000ed34u)
#define BP_BFAR (*(volatile uint32_t *)0xe000ed38u)
#define BP_FPCCR (*(volatile uint32_t *)0xe000ef34u)
#define BP_FPCCR_LSPACT (1u << 0)

/* CFSR (B3.2.15): MemManage from bit 0 on, BusFault from 8, UsageFault from 16. */
#define BP_CFSR_FETCH (1u << 0 | 1u << 8)           /* IACCVIOL, IBUSERR */
#define BP_CFSR_DATA (1u << 1 | 1u << 9 | 1u << 10) /* DACCVIOL, PRECISERR, IMPRECISERR */
/* MUNSTKERR, MSTKERR, MLSPERR, UNSTKERR, STKERR, LSPERR; STKOF of ARMv8-M */
#define BP_CFSR_STACK (7u << 3 | 7u << 11 | 1u << 20)
#define BP_CFSR_MMARVALID (1u << 7)
#define BP_CFSR_BFARVALID (1u << 15)
#define BP_CFSR_INVSTATE (1u << 17)
#define BP_CFSR_INSTRUCTION (15u << 16) /* UNDEFINSTR, INVSTATE, INVPC, NOCP */
#define BP_CFSR_UNALIGNED (1u << 24)
#define BP_CFSR_DIVBYZERO (1u << 25)

/* EXC_RETURN (B1.5.8). */
#define BP_FROM_BODY 0xcu    /* thread mode, process stack */
#define BP_BASIC_FRAME 0x10u /* without floating-point registers */
#define BP_SYSTICK 15u       /* exception number (B1.5.2) */

/* The board, as given by the first guarded call; it never changes. */
static const bp_arch_guard_t *bp_guard_board;

/* Where to report the fault of the current guarded call; NULL outside of one. */
static bp_fault_t *volatile bp_guard_fault;

/// Special registers ///

#define BP_GET(name)                                      \
    static uint32_t bp_get_##name(void) {                 \
        uint32_t value;                                   \
        __asm__ volatile("mrs %0, " #name : "=r"(value)); \
        return value;                                     \
    }
/* The same for a register that a guarded call must restore. */
#define BP_SPECIAL(name)                                      \
    BP_GET(name)                                              \
    static void bp_set_##name(uint32_t value) {               \
        __asm__ volatile("msr " #name ", %0" : : "r"(value)); \
    }

BP_GET(ipsr)

/// The cause of a fault ///

static bool bp_within(uint32_t address, const char *start, const char *end) {
    return address >= (uintptr_t)start && address < (uintptr_t)end;
}

/* After a call, LR holds the address of the next instruction with bit 0 set. Returns whether `word`
 * can be such an address: in the code, after a BL or a BLX (A7.7.18, A7.7.19). */
static bool bp_is_return_address(const bp_arch_guard_t *board, uint32_t word) {
    if ((word & 1u) == 0 || !bp_within(word - 5, board->text_start, board->text_end)) {
        return false;
    }
    const uint16_t *next = (const uint16_t *)(uintptr_t)(word - 1);
    bool bl = (next[-2] & 0xf800u) == 0xf000u && (next[-1] & 0xd000u) == 0xd000u;
    bool blx = (next[-1] & 0xff87u) == 0x4780u;
    return bl || blx;
}

/* The innermost call that can still be found on the stack, which the body filled from `top` down.
 */
static uint32_t bp_innermost_call(const bp_arch_guard_t *board, const void *top) {
    const uint32_t *word = (const uint32_t *)(uintptr_t)board->stack_guard_end;
    while ((const void *)word < top && !bp_is_return_address(board, *word)) {
        word++;
    }
    return (const void *)word < top ? *word - 3u : 0;
}

static bool bp_is_abort(const bp_arch_guard_t *board, const bp_stacked_t *stacked) {
    return stacked != NULL && bp_within(stacked->pc, board->text_start, board->text_end) &&
           *(const uint16_t *)(uintptr_t)stacked->pc == BP_ABORT_THUMB;
}

/* See bp_arch_guard.h. `stacked` is NULL if the core could not store it. */
static uint32_t bp_pc_of(const bp_arch_guard_t *board, const bp_stacked_t *stacked,
                         const void *top) {
    if (stacked == NULL) {
        return bp_innermost_call(board, top);
    }
    bool lost = !bp_within(stacked->pc, board->text_start, board->text_end);
    bool elsewhere = lost || bp_is_abort(board, stacked);
    return elsewhere && bp_is_return_address(board, stacked->lr) ? stacked->lr - 3u : stacked->pc;
}

#if BP_HAS_FAULT_STATUS

typedef struct {
    uint32_t cfsr, mmfar, bfar;
} bp_status_t;

/* Read the fault status and clear it for the next fault. The addresses come first: they may change
 * once their valid bits are cleared. */
static bp_status_t bp_take_status(void) {
    bp_status_t status = {.mmfar = BP_MMFAR, .bfar = BP_BFAR, .cfsr = BP_CFSR};
    BP_CFSR = status.cfsr;
    BP_HFSR = BP_HFSR;
    BP_DFSR = BP_DFSR;
    return status;
}

static uint8_t bp_cause_of(uint32_t cfsr, bool is_overflow, bool in_code) {
    if ((cfsr & BP_CFSR_STACK) != 0 || is_overflow) {
        return BP_FAULT_STACK_OVERFLOW;
    }
    /* A jump to an even address also sets INVSTATE. */
    if ((cfsr & (BP_CFSR_FETCH | BP_CFSR_DATA)) != 0 || ((cfsr & BP_CFSR_INVSTATE) && !in_code)) {
        return BP_FAULT_BAD_ADDRESS;
    }
    if ((cfsr & BP_CFSR_UNALIGNED) != 0) {
        return BP_FAULT_MISALIGNED;
    }
    if ((cfsr & BP_CFSR_DIVBYZERO) != 0) {
        return BP_FAULT_DIVIDE;
    }
    if ((cfsr & BP_CFSR_INSTRUCTION) != 0) {
        return BP_FAULT_ILLEGAL_INSTRUCTION;
    }
    return BP_FAULT_UNKNOWN;
}

/* An address below the stack is not enough, since an index that is far too large leads there, too.
 * A push that failed has not moved sp. It pushes 128 bytes at most (VPUSH), so sp must be near the
 * stack's end. `stacked` is below sp, or NULL. */
static bool bp_is_overflow(const bp_arch_guard_t *board, const bp_stacked_t *stacked,
                           uint32_t address) {
    enum { PUSHED = 128 };
    bool below = bp_within(address, board->stack_guard_start, board->stack_guard_end);
    return below && (uintptr_t)stacked <= (uintptr_t)board->stack_guard_end + PUSHED;
}

/* Returns the cause, and the address that was accessed in *address. */
static uint8_t bp_explain(const bp_arch_guard_t *board, const bp_stacked_t *stacked,
                          const uint32_t *main_stack, uint64_t *address) {
    (void)main_stack;
    bp_status_t status = bp_take_status();
    bool in_code = stacked == NULL || bp_within(stacked->pc, board->text_start, board->text_end);
    if ((status.cfsr & BP_CFSR_MMARVALID) != 0) {
        *address = status.mmfar;
    } else if ((status.cfsr & BP_CFSR_BFARVALID) != 0) {
        *address = status.bfar;
    } else if (!in_code) {
        *address = stacked->pc;
    }
    return bp_cause_of(status.cfsr, bp_is_overflow(board, stacked, (uint32_t)*address), in_code);
}

#else

/* bp_fault_handler has saved r4 to r7 right below the main stack, and LR between them. */
static uint8_t bp_explain(const bp_arch_guard_t *board, const bp_stacked_t *stacked,
                          const uint32_t *main_stack, uint64_t *address) {
    uint32_t low[8] = {0, 0, 0, 0, main_stack[-5], main_stack[-4], main_stack[-3], main_stack[-2]};
    bool in_code = stacked != NULL && bp_within(stacked->pc, board->text_start, board->text_end);
    if (stacked != NULL) {
        low[0] = stacked->r0, low[1] = stacked->r1, low[2] = stacked->r2, low[3] = stacked->r3;
    }
    return bp_guard_explain_v6m(stacked, in_code, low, address);
}

#endif

/* A BKPT without a debugger is a HardFault. Emulators do not report this in HFSR. */
static bool bp_is_breakpoint(const bp_arch_guard_t *board, const bp_stacked_t *stacked) {
    return stacked != NULL && bp_within(stacked->pc, board->text_start, board->text_end) &&
           *(const uint16_t *)(uintptr_t)stacked->pc >> 8 == 0xbe; /* A7.7.17 */
}

/// The handler ///

/* A separate function, so that a debugger shows its name. */
static __attribute__((noinline, noreturn)) void bp_guard_park(void) {
    for (;;) {
    }
}

/* Make the core continue at bp_guard_leave. It takes a stack frame from below `top`: there is room,
 * since the body's stack began there. */
static uint32_t bp_go_back(void *top, uint32_t exc_return) {
    bp_stacked_t *back = (bp_stacked_t *)top - 1;
    back->pc = (uint32_t)(uintptr_t)bp_guard_leave & ~1u;
    back->xpsr = 1u << 24; /* T: Thumb */
    __asm__ volatile("msr psp, %0\n"
                     "msr control, %1\n" /* SPSEL. The body may also have dropped its privilege. */
                     "isb\n"
                     :
                     : "r"(back), "r"(2)
                     : "memory");
#if defined(__ARM_FP)
    BP_FPCCR &= ~BP_FPCCR_LSPACT; /* the body's registers need not be stored any more (B1.5.7) */
#endif
    return exc_return | BP_BASIC_FRAME;
}

/// Sampling ///

#if BP_CFG_SAMPLING

#define BP_ICSR (*(volatile uint32_t *)0xe000ed04u)
#define BP_ICSR_PENDSTSET (1u << 26)

volatile bool bp_guard_is_sampled;

/* The limit was over while a sample was being taken: NMI had interrupted that. */
static volatile bool bp_guard_is_late;

/* Where the body's stack pointer was before the core stored a frame: xPSR bit 9 says that it left
 * out a word to align it, EXC_RETURN how long the frame is (B1.5.7). */
static uintptr_t bp_body_stack(const bp_stacked_t *stacked, uint32_t exc_return) {
    uint32_t bytes = (exc_return & BP_BASIC_FRAME) != 0 ? 32 : 104;
    return (uintptr_t)stacked + bytes + ((stacked->xpsr & 1u << 9) != 0 ? 4 : 0);
}

/* Take a sample of the body. Returns whether its limit has been over meanwhile. */
static bool bp_guard_sample(const bp_stacked_t *stacked, uint32_t exc_return) {
    if (bp_guard_is_sampled && !bp_guard_is_late) {
        bp_port_sample_stop();
        bp_port_sample_start(bp_sample_take(stacked->pc, bp_body_stack(stacked, exc_return)));
    }
    return bp_guard_is_late;
}

/* Nobody can return from two handlers at once: end the call in the one of the sample. SysTick's
 * exception is pending until that has returned, so that it comes again if it is just returning. */
static void bp_guard_end_later(void) {
    if (bp_guard_is_sampled) {
        bp_guard_is_late = true;
        BP_ICSR = BP_ICSR_PENDSTSET;
    }
}

static void bp_guard_sampling_begin(void) {
    bp_guard_is_late = false;
}

#else

static bool bp_guard_sample(const bp_stacked_t *stacked, uint32_t exc_return) {
    (void)stacked, (void)exc_return;
    return false;
}

static void bp_guard_end_later(void) {
}

static void bp_guard_sampling_begin(void) {
}

#endif

/* Whether the timer's exception ends the call. If not, the body continues. */
static bool bp_guard_is_over(const bp_arch_guard_t *board, bool from_body,
                             const bp_stacked_t *stacked, uint32_t exc_return) {
    bool over = board->is_over();
    if (!from_body) {
        if (over) {
            bp_guard_end_later();
        }
        return false;
    }
    return over || bp_guard_sample(stacked, exc_return);
}

__attribute__((used)) uint32_t bp_guard_exception(const bp_stacked_t *stacked, uint32_t exc_return,
                                                  char *main_stack, bool timer) {
    const bp_arch_guard_t *board = bp_guard_board;
    bp_fault_t *fault = bp_guard_fault;
    bool from_body = fault != NULL && (exc_return & BP_FROM_BODY) == BP_FROM_BODY;
    bool tick =
        (BP_CFG_SAMPLING || (board != NULL && board->is_systick)) && bp_get_ipsr() == BP_SYSTICK;
    if (board == NULL || (!from_body && !timer && !tick)) {
        bp_guard_park();
    }
    if (tick && !board->is_systick) {
        timer = from_body && bp_guard_sample(stacked, exc_return);
        if (!timer) {
            return exc_return;
        }
    } else if (timer || tick) {
        timer = bp_guard_is_over(board, from_body, stacked, exc_return);
        if (!timer) {
            return exc_return;
        }
    }
    char *top = main_stack - BP_HANDLER_STACK;
    bool stored = (const char *)stacked >= board->stack_guard_end && (const char *)stacked < top;
    /* If a fault and the time limit come together, the first one counts. A fault may still be
     * pending when the limit is over; it then comes once more, at bp_guard_leave. */
    if (fault->cause == BP_FAULT_NONE) {
        const bp_stacked_t *known = stored ? stacked : NULL;
        fault->pc = bp_pc_of(board, known, top);
        const uint32_t *kept = (const uint32_t *)(const void *)main_stack;
        fault->cause = timer ? BP_FAULT_TIME_OUT : bp_explain(board, known, kept, &fault->address);
        bool undefined = fault->cause == BP_FAULT_ILLEGAL_INSTRUCTION;
        if ((undefined || fault->cause == BP_FAULT_UNKNOWN) && bp_is_abort(board, known)) {
            fault->cause = BP_FAULT_ABORT;
        }
        if (fault->cause == BP_FAULT_UNKNOWN && bp_is_breakpoint(board, known)) {
            fault->cause = BP_FAULT_BREAKPOINT;
        }
    }
    return bp_go_back(top, exc_return);
}

/// The call ///

BP_SPECIAL(primask)

static void bp_call_guarded(const bp_arch_guard_t *board, void (*body)(void *context),
                            void *context, bp_fault_t *fault) {
    *fault = (bp_fault_t){.cause = BP_FAULT_NONE};
    bp_guard_board = board;
    bp_guard_fault = fault;
    bp_guard_sampling_begin();
    __asm__ volatile("dsb\n isb" ::: "memory");
    bp_guard_enter(body, context);
    bp_guard_fault = NULL;
}

#if BP_HAS_FAULT_STATUS

BP_SPECIAL(faultmask)
BP_SPECIAL(basepri)

void bp_arch_guard(const bp_arch_guard_t *board, void (*body)(void *context), void *context,
                   bp_fault_t *fault) {
    uint32_t primask = bp_get_primask(), faultmask = bp_get_faultmask(), basepri = bp_get_basepri();
    uint32_t shcsr = BP_SHCSR, ccr = BP_CCR;
    (void)bp_take_status(); /* discard what an earlier fault left there */
    BP_SHCSR = shcsr | BP_SHCSR_FAULTS;
    BP_CCR = ccr | BP_CCR_DIV_0_TRP;
    bp_call_guarded(board, body, context, fault);
    BP_CCR = ccr;
    BP_SHCSR = shcsr;
    bp_set_basepri(basepri);
    bp_set_faultmask(faultmask);
    bp_set_primask(primask);
}

#else

void bp_arch_guard(const bp_arch_guard_t *board, void (*body)(void *context), void *context,
                   bp_fault_t *fault) {
    uint32_t primask = bp_get_primask();
    bp_call_guarded(board, body, context, fault);
    bp_set_primask(primask);
}

#endif

#endif
