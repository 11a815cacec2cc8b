/* SPDX-License-Identifier: Apache-2.0 */
/* The entry to a guarded call, the exit from it, and the path from the vectors to
 * bp_guard_exception. All of it uses only ARMv6-M instructions.
 *
 * ARMv7-M Architecture Reference Manual (DDI 0403): stack pointers B1.4.1, exceptions B1.5. */

#include "bp_arch_guard.h"

#if BP_CFG_GUARD

#include "bp_arch_guard_enter.h"

void bp_fault_handler(void);
void bp_nmi_handler(void);

#define BP_STRING(text) #text
#define BP_TEXT(macro) BP_STRING(macro)

#if defined(__ARM_FP)
#define BP_PUSH_FLOATS "vpush {s16-s31}\n"
#define BP_POP_FLOATS "vpop {s16-s31}\n"
#else
#define BP_PUSH_FLOATS
#define BP_POP_FLOATS
#endif

/* Call body(context) on the process stack. Both the body and the handler come back to
 * bp_guard_leave. The main stack does not change meanwhile. */
__attribute__((naked)) void bp_guard_enter(__attribute__((unused)) void (*body)(void *context),
                                           __attribute__((unused)) void *context) {
    /* clang-format off */
    __asm__ volatile(".syntax unified\n"
                     "push {r3-r7, lr}\n" /* r3 keeps the stack aligned to 8 */
                     "mov  r4, r8\n"
                     "mov  r5, r9\n"
                     "mov  r6, r10\n"
                     "mov  r7, r11\n"
                     "push {r4-r7}\n"
                     BP_PUSH_FLOATS
                     "mov  r2, sp\n"
                     "movs r3, #" BP_TEXT(BP_HANDLER_STACK) " / 8\n"
                     "lsls r3, r3, #3\n"
                     "subs r2, r2, r3\n"
                     "msr  psp, r2\n"
                     "mov  r3, r0\n"
                     "mov  r0, r1\n"
                     "mrs  r2, control\n"
                     "movs r1, #2\n" /* SPSEL */
                     "orrs r2, r1\n"
                     "msr  control, r2\n"
                     "isb\n"
                     "blx  r3\n"
                     ".globl bp_guard_leave\n"
                     ".thumb_func\n"
                     "bp_guard_leave:\n"
                     "mrs  r2, control\n"
                     "movs r1, #2\n"
                     "bics r2, r1\n"
                     "msr  control, r2\n"
                     "isb\n"
                     BP_POP_FLOATS
                     "pop  {r4-r7}\n"
                     "mov  r8, r4\n"
                     "mov  r9, r5\n"
                     "mov  r10, r6\n"
                     "mov  r11, r7\n"
                     "pop  {r3-r7, pc}\n");
    /* clang-format on */
}

/* All faults, and other exceptions that are not interrupts. LR is EXC_RETURN, and is replaced by
 * what bp_guard_exception returns. Overrides the weak handler of startup.c. */
__attribute__((naked)) void bp_fault_handler(void) {
    __asm__ volatile(".syntax unified\n"
                     "movs r3, #0\n"
                     "bp_guard_handle:\n"
                     "mrs  r0, psp\n"
                     "mov  r1, lr\n"
                     "mov  r2, sp\n"
                     "push {r3-r7, lr}\n"
                     "bl   bp_guard_exception\n"
                     "add  sp, #24\n" /* the callee has preserved r4 to r7 */
                     "bx   r0\n");
}

__attribute__((naked)) void bp_guard_timer_handler(void) {
    __asm__ volatile(".syntax unified\n"
                     "movs r3, #1\n"
                     "b    bp_guard_handle\n");
}

/* Overrides the weak handler of startup.c. */
void bp_nmi_handler(void) __attribute__((alias("bp_guard_timer_handler")));

#endif
