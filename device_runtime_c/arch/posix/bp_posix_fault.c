/* SPDX-License-Identifier: Apache-2.0 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* signal codes */
#endif

#include "bp_posix_fault.h"

#include <stdbool.h>
#include <unistd.h>

#include "bp_posix_image.h"

#if BP_CFG_GUARD

enum {
    BP_NEAR_THE_END = 1 << 20, /* of the stack: where sp is in an overflow, or below */
    BP_LARGEST_FRAME = 1 << 26 /* that counts as a stack overflow when it is beyond the stack */
};

static uint8_t bp_memory_cause(const siginfo_t *info, const void *context, uintptr_t end) {
    uintptr_t sp = bp_posix_context_sp(context);
    uintptr_t address = (uintptr_t)info->si_addr;
    long page = sysconf(_SC_PAGESIZE);
    /* The stack's end, and the range below it that a frame larger than the guard may reach. */
    bool below = address < end + (uintptr_t)page && address + BP_LARGEST_FRAME >= end;
    return below && sp < end + BP_NEAR_THE_END ? BP_FAULT_STACK_OVERFLOW : BP_FAULT_BAD_ADDRESS;
}

static bool bp_is_division(const siginfo_t *info) {
#ifdef __arm__
    if (info->si_code == SI_TKILL) { /* ARMv7-A may lack a division; libgcc's calls raise() */
        return true;
    }
#endif
    return info->si_code == FPE_INTDIV;
}

bp_fault_t bp_posix_fault(int number, const siginfo_t *info, const void *context,
                          uintptr_t stack_end) {
    bp_fault_t fault = {.cause = BP_FAULT_UNKNOWN};
    bool by_cpu = info->si_code > 0; /* and not by raise() */
    uintptr_t address = by_cpu ? (uintptr_t)info->si_addr : 0;
    switch (number) {
    case SIGSEGV:
        fault.cause = by_cpu ? bp_memory_cause(info, context, stack_end) : BP_FAULT_BAD_ADDRESS;
        fault.address = address;
        break;
    case SIGBUS:
        fault.cause = info->si_code == BUS_ADRALN ? BP_FAULT_MISALIGNED : BP_FAULT_BAD_ADDRESS;
        fault.address = address;
        break;
    case SIGILL:
        fault.cause = BP_FAULT_ILLEGAL_INSTRUCTION;
        break;
    case SIGFPE:
        fault.cause = bp_is_division(info) ? BP_FAULT_DIVIDE : BP_FAULT_UNKNOWN;
        break;
    case SIGTRAP:
        fault.cause = BP_FAULT_BREAKPOINT;
        break;
    case SIGABRT:
        fault.cause = BP_FAULT_ABORT;
        break;
    default:
        fault.cause = BP_FAULT_TIME_OUT;
        break;
    }
    return fault;
}

uintptr_t bp_posix_trapped_at(int number, const siginfo_t *info, const void *context) {
    uintptr_t pc = bp_posix_context_pc(context);
#if defined(__x86_64__) || defined(__i386__)
    return number == SIGTRAP && info->si_code > 0 ? pc - 1 : pc;
#else
    (void)number;
    (void)info;
    return pc;
#endif
}

#endif
