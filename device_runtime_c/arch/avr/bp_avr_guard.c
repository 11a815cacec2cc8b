/* SPDX-License-Identifier: Apache-2.0 */
/* TIMER1's interrupt, which counts wraps and ends guarded calls whose time is over.
 *
 * It always takes the same number of cycles, so that they can be subtracted from the measurement.
 * Of the stack it uses only the return address, so that painted stacks stay intact: the register
 * that it needs and SREG are saved in variables. It does not nest. */

#include "bp_avr.h"
#include "bp_avr_timer.h"

/* Wraps until the limit of the guarded call, as a negative number; 1 if there is no limit. */
__attribute__((used)) static volatile uint32_t bp_guard_left;
__attribute__((used)) static volatile uint8_t bp_guard_on;
__attribute__((used)) static volatile uint8_t bp_guard_over;    /* enum bp_fault_cause */
__attribute__((used)) static volatile uint8_t bp_guard_kept[2]; /* R24, SREG */
__attribute__((used)) static volatile uint16_t bp_guard_stack; /* stack pointer of bp_guard_enter */
__attribute__((used)) static volatile uint8_t bp_guard_pc[3];  /* words, most significant first */

/* Save the return address on top of the stack. */
#if defined(__AVR_3_BYTE_PC__)
#define BP_GUARD_PC              \
    "ldd r24, Y+1\n\t"           \
    "sts bp_guard_pc, r24\n\t"   \
    "ldd r24, Y+2\n\t"           \
    "sts bp_guard_pc+1, r24\n\t" \
    "ldd r24, Y+3\n\t"           \
    "sts bp_guard_pc+2, r24\n\t"
#else
#define BP_GUARD_PC              \
    "ldd r24, Y+1\n\t"           \
    "sts bp_guard_pc+1, r24\n\t" \
    "ldd r24, Y+2\n\t"           \
    "sts bp_guard_pc+2, r24\n\t"
#endif

/* Add 1 to two bytes of `name`, starting from the carry: SUBI and SBCI subtract -1, and borrow
 * unless the byte wraps. */
#define BP_ADD(name, at, first)                            \
    "lds r24, " name "+" #at "\n\t" first " r24, 0xff\n\t" \
    "sts " name "+" #at ", r24\n\t"
#define BP_INCREMENT(name) \
    BP_ADD(name, 0, "subi") BP_ADD(name, 1, "sbci") BP_ADD(name, 2, "sbci") BP_ADD(name, 3, "sbci")

__attribute__((naked, used)) void bp_avr_overflow(void) {
    /* clang-format off */
    __asm__ volatile("sts bp_guard_kept, r24\n\t"
                     "in  r24, 0x3f\n\t"
                     "sts bp_guard_kept+1, r24\n\t"
                     BP_INCREMENT("bp_avr_overflows")
                     BP_INCREMENT("bp_guard_left")
                     "brcc 2f\n"
                     "1:\n\t"
                     "lds r24, bp_guard_kept+1\n\t"
                     "out 0x3f, r24\n\t"
                     "lds r24, bp_guard_kept\n\t"
                     "reti\n"
                     "2:\n\t" /* the limit is over, or there was none and the count wrapped */
                     "lds r24, bp_guard_on\n\t"
                     "cpi r24, 0\n\t"
                     "breq 1b\n\t"
                     "ldi r24, %0\n"
                     "bp_guard_end:\n\t"
                     "sts bp_guard_over, r24\n\t"
                     "in  r28, 0x3d\n\t" /* SPL */
                     "in  r29, 0x3e\n\t" /* SPH */
                     BP_GUARD_PC
                     "%~jmp bp_guard_leave" : : "i"(BP_FAULT_TIME_OUT));
    /* clang-format on */
}

#if BP_CFG_GUARD

#if defined(__AVR_HAVE_EIJMP_EICALL__)
#define BP_CALL_Z "eicall\n\t"
#else
#define BP_CALL_Z "icall\n\t"
#endif

/* Call body(context). It comes back when the body has returned, or from the interrupt. In both
 * cases registers and stack pointer are restored. */
__attribute__((naked, noinline)) static void bp_guard_enter(void (*body)(void *context),
                                                            void *context) {
    (void)body, (void)context;
    /* clang-format off */
    __asm__ volatile("push r2\n\t" "push r3\n\t" "push r4\n\t" "push r5\n\t" "push r6\n\t"
                     "push r7\n\t" "push r8\n\t" "push r9\n\t" "push r10\n\t" "push r11\n\t"
                     "push r12\n\t" "push r13\n\t" "push r14\n\t" "push r15\n\t" "push r16\n\t"
                     "push r17\n\t" "push r28\n\t" "push r29\n\t"
                     "in  r30, 0x3d\n\t"
                     "in  r31, 0x3e\n\t"
                     "sts bp_guard_stack, r30\n\t"
                     "sts bp_guard_stack+1, r31\n\t"
                     "movw r30, r24\n\t"
                     "movw r24, r22\n\t"
                     BP_CALL_Z
                     "\n"
                     "bp_guard_leave:\n\t"
                     "cli\n\t"
                     "eor r1, r1\n\t" /* C code expects 0 here, and the body may have changed it */
                     "sts bp_guard_on, r1\n\t"
                     "lds r30, bp_guard_stack\n\t"
                     "lds r31, bp_guard_stack+1\n\t"
                     "out 0x3d, r30\n\t"
                     "out 0x3e, r31\n\t"
                     "sei\n\t"
                     "pop r29\n\t" "pop r28\n\t" "pop r17\n\t" "pop r16\n\t" "pop r15\n\t"
                     "pop r14\n\t" "pop r13\n\t" "pop r12\n\t" "pop r11\n\t" "pop r10\n\t"
                     "pop r9\n\t" "pop r8\n\t" "pop r7\n\t" "pop r6\n\t" "pop r5\n\t" "pop r4\n\t"
                     "pop r3\n\t" "pop r2\n\t"
                     "ret" ::);
    /* clang-format on */
}

/* Set the limit; 0: no limit. The first wrap may come at once. */
static void bp_guard_limit(uint32_t timeout_ms) {
    uint32_t ticks_a_ms = BP_ROM_GET(bp_port_clock.ticks_hz) / 1000u;
    uint32_t wraps = (uint32_t)(((uint64_t)timeout_ms * ticks_a_ms) >> 16) + 2;
    __asm__ volatile("cli" ::: "memory");
    bp_guard_left = timeout_ms != 0 ? 0u - wraps : 1;
    __asm__ volatile("sei" ::: "memory");
}

/// The stack's lowest bytes ///

#define BP_CANARY 0x8bu

static void bp_canary_paint(void) {
    volatile uint8_t *canary = bp_stack_guard_start;
    for (uint8_t i = 0; i < BP_AVR_CANARY; i++) {
        canary[i] = BP_CANARY;
    }
}

/* Whether the call's stack has grown through the canary. */
static bool bp_canary_is_gone(void) {
    const volatile uint8_t *canary = bp_stack_guard_start;
    bool gone = false;
    for (uint8_t i = 0; i < BP_AVR_CANARY; i++) {
        gone |= canary[i] != BP_CANARY;
    }
    return gone;
}

/// Guarded calls ///

/* Catches BP_FAULT_TIME_OUT and BP_FAULT_ABORT only: the core has no traps. The limit is checked
 * when TIMER1 wraps, so a call ends up to two wraps after it. A call that turns interrupts off
 * never ends. The receiver's interrupt is off meanwhile. BP_FAULT_STACK_OVERFLOW is reported when
 * the call is over, however it ended, if the agent has survived it: the heap and the arena are
 * the first that such a stack hits. */
void bp_port_guard(void (*body)(void *context), void *context, uint32_t timeout_ms,
                   bp_fault_t *fault) {
    *fault = (bp_fault_t){.cause = BP_FAULT_NONE};
    uint8_t receiver = BP_AVR_UCSR0B;
    BP_AVR_UCSR0B = receiver & (uint8_t)~BP_AVR_RXCIE0;
    bp_guard_limit(timeout_ms);
    bp_guard_over = BP_FAULT_NONE;
    bp_canary_paint();
    bp_guard_on = 1;
    bp_guard_enter(body, context);
#if BP_CFG_STACK
    if (bp_avr_is_quiet) {
        bp_avr_is_quiet = false;
        BP_AVR_TIMSK1 = BP_AVR_TOV1;
    }
#endif
    bp_guard_limit(0);
    if (bp_guard_over != BP_FAULT_NONE) {
        uint32_t words = (uint32_t)bp_guard_pc[0] << 16 | (uint32_t)bp_guard_pc[1] << 8;
        fault->cause = bp_guard_over;
        /* Another function may follow a call that does not return, so use the address of the call
         * itself. */
        fault->pc = (words | bp_guard_pc[2]) * 2u - (fault->cause == BP_FAULT_ABORT ? 2u : 0u);
    }
    if (bp_canary_is_gone()) {
        fault->cause = BP_FAULT_STACK_OVERFLOW;
    }
    BP_AVR_UCSR0B = receiver;
}

/* The C library's way to end a program, and GCC's for __builtin_trap(): it ends the guarded call.
 * Outside of one the core stops, as with the library's own abort. */
_Noreturn void abort(void);
_Noreturn void exit(int status);
_Noreturn void _exit(int status);
_Noreturn void _Exit(int status);

__attribute__((naked, used)) _Noreturn void abort(void) {
    __asm__ volatile("cli\n\t"
                     "lds r24, bp_guard_on\n"
                     "1:\n\t"
                     "cpi r24, 0\n\t"
                     "breq 1b\n\t"
                     "ldi r24, %0\n\t"
                     "%~jmp bp_guard_end" ::"i"(BP_FAULT_ABORT));
    __builtin_unreachable();
}

/* Jumps, so that the return address is still that of the call of exit. */
#define BP_AVR_IS_ABORT(name)                                \
    __attribute__((naked)) _Noreturn void name(int status) { \
        (void)status;                                        \
        __asm__ volatile("%~jmp abort" ::);                  \
        __builtin_unreachable();                             \
    }

BP_AVR_IS_ABORT(exit)
BP_AVR_IS_ABORT(_exit)
BP_AVR_IS_ABORT(_Exit)

#else

/* Never reached: nothing sets bp_guard_on. */
__attribute__((naked, used)) static void bp_guard_leave(void) {
    __asm__ volatile("reti");
}

#endif
