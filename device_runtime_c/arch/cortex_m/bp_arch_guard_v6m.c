/* SPDX-License-Identifier: Apache-2.0 */
/* The cause of a fault on a core without fault status registers (ARMv6-M, ARMv8-M baseline). It is
 * decoded from the instruction that faulted.
 *
 * ARMv6-M Architecture Reference Manual (DDI 0419): instruction encodings A5.2 and A5.3; all faults
 * are HardFault, B1.5.2. */

#include "bp_arch_guard.h"

#if BP_CFG_GUARD && (defined(__ARM_ARCH_6M__) || defined(__ARM_ARCH_8M_BASE__))

#include "bp_arch_guard_enter.h"

/* The memory that a load or store accesses. `size` 0: the instruction does not access memory. */
typedef struct {
    uint32_t address;
    uint32_t size;
} bp_access_t;

static uint32_t bp_low(const uint32_t low[8], uint32_t number) {
    return low[number & 7u];
}

/* Loads and stores at register + register, A5.2.4, opcode 5. */
static bp_access_t bp_by_register(uint32_t op, const uint32_t low[8]) {
    static const uint8_t sizes[8] = {4, 2, 1, 1, 4, 2, 1, 2}; /* STR STRH STRB LDRSB LDR ... */
    return (bp_access_t){bp_low(low, op >> 3) + bp_low(low, op >> 6), sizes[op >> 9 & 7u]};
}

/* Loads and stores at register + 5-bit offset, opcodes 6 to 8: words, bytes, halfwords. */
static bp_access_t bp_by_immediate(uint32_t op, const uint32_t low[8]) {
    uint32_t kind = op >> 12;
    uint32_t size = kind == 6 ? 4 : kind == 7 ? 1 : 2;
    return (bp_access_t){bp_low(low, op >> 3) + (op >> 6 & 31u) * size, size};
}

/* `sp` is its value before the instruction. PUSH is missing here: if it fails, the stack is full. A
 * switch would need a library function on this core. */
static bp_access_t bp_access(uint32_t op, const uint32_t low[8], uint32_t sp) {
    uint32_t kind = op >> 12;
    if (kind == 5) {
        return bp_by_register(op, low);
    }
    if (kind >= 6 && kind <= 8) {
        return bp_by_immediate(op, low);
    }
    if (kind == 9) { /* relative to SP */
        return (bp_access_t){sp + (op & 255u) * 4, 4};
    }
    if (kind == 12) { /* STM, LDM */
        return (bp_access_t){bp_low(low, op >> 8), 4};
    }
    return (bp_access_t){0, 0};
}

uint8_t bp_guard_explain_v6m(const bp_stacked_t *stacked, bool in_code, const uint32_t low[8],
                             uint64_t *address) {
    if (stacked == NULL) {
        return BP_FAULT_STACK_OVERFLOW;
    }
    /* If the T bit is clear (B1.4.2), this was a jump to an even address. */
    if (!in_code || (stacked->xpsr & 1u << 24) == 0) {
        *address = stacked->pc;
        return BP_FAULT_BAD_ADDRESS;
    }
    uint32_t op = *(const uint16_t *)(uintptr_t)stacked->pc;
    /* Bit 9 of xPSR shows that the core skipped 4 bytes to align the stack (B1.5.7). */
    uint32_t frame = sizeof *stacked + ((stacked->xpsr >> 9 & 1u) * 4u);
    bp_access_t access = bp_access(op, low, (uint32_t)(uintptr_t)stacked + frame);
    if (access.size != 0) {
        *address = access.address;
        return access.address % access.size != 0 ? BP_FAULT_MISALIGNED : BP_FAULT_BAD_ADDRESS;
    }
    if (op >> 8 == 0xbeu) {
        return BP_FAULT_BREAKPOINT;
    }
    /* SVC while it is masked, and a push or pop without a valid stack. */
    bool known = op >> 8 == 0xdfu || (op & 0xf600u) == 0xb400u;
    return known ? BP_FAULT_UNKNOWN : BP_FAULT_ILLEGAL_INSTRUCTION;
}

#endif
