/* SPDX-License-Identifier: Apache-2.0 */
/* Registers of a core that a test models (tests/c/cortex_m_model.c); without it, they read 0. */

#ifndef BP_ARCH_REG_H
#define BP_ARCH_REG_H

#include <stdint.h>

uint32_t test_reg_read(uint32_t address);
void test_reg_write(uint32_t address, uint32_t value);

__attribute__((weak)) uint32_t test_reg_read(uint32_t address) {
    (void)address;
    return 0;
}

__attribute__((weak)) void test_reg_write(uint32_t address, uint32_t value) {
    (void)address, (void)value;
}

static inline uint32_t bp_arch_reg(uint32_t address) {
    return test_reg_read(address);
}

static inline void bp_arch_reg_put(uint32_t address, uint32_t value) {
    test_reg_write(address, value);
}

#endif
