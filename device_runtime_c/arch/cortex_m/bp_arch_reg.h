/* SPDX-License-Identifier: Apache-2.0 */
/* Core registers by address. Tests of collectors replace this header with a model. */

#ifndef BP_ARCH_REG_H
#define BP_ARCH_REG_H

#include <stdint.h>

static inline uint32_t bp_arch_reg(uint32_t address) {
    return *(const volatile uint32_t *)(uintptr_t)address;
}

static inline void bp_arch_reg_put(uint32_t address, uint32_t value) {
    *(volatile uint32_t *)(uintptr_t)address = value;
}

#endif
