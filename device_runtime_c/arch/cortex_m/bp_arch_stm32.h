/* SPDX-License-Identifier: Apache-2.0 */
/* The line to the host on an STM32's USART, polled. port.c includes it once. Before that, port.c
 * defines BP_USART, its address, and BP_USART_HAS_ISR if it has ISR, RDR and TDR (F3, F7, H7 and
 * later) instead of SR and DR (F1, F2, F4). Pins and clock must be on when bp_usart_init is called.
 *
 * RM0041 (STM32F100), 23.6; RM0090 (STM32F405), 30.6; RM0433 (STM32H743), 48.7. */

#ifndef BP_ARCH_STM32_H
#define BP_ARCH_STM32_H

#ifndef BP_USART
#define BP_USART 0x40011000u
#endif

#include "bp_arch_port.h"

#define BP_STM32_REG(address) (*(volatile uint32_t *)(address))
#ifdef BP_USART_HAS_ISR
#define BP_USART_SR BP_STM32_REG(BP_USART + 0x1c)
#define BP_USART_IN BP_STM32_REG(BP_USART + 0x24)
#define BP_USART_OUT BP_STM32_REG(BP_USART + 0x28)
#define BP_USART_BRR BP_STM32_REG(BP_USART + 0x0c)
#define BP_USART_CR1 BP_STM32_REG(BP_USART + 0x00)
#define BP_USART_UE (1u << 0)
#else
#define BP_USART_SR BP_STM32_REG(BP_USART + 0x00)
#define BP_USART_IN BP_STM32_REG(BP_USART + 0x04)
#define BP_USART_OUT BP_USART_IN
#define BP_USART_BRR BP_STM32_REG(BP_USART + 0x08)
#define BP_USART_CR1 BP_STM32_REG(BP_USART + 0x0c)
#define BP_USART_UE (1u << 13)
#endif
#define BP_USART_RXNE (1u << 5)
#define BP_USART_TXE (1u << 7)

/* TE, RE; sixteen samples for each bit. */
static inline void bp_usart_init(uint32_t clock_hz, uint32_t baud) {
    BP_USART_BRR = (clock_hz + baud / 2) / baud;
    BP_USART_CR1 = BP_USART_UE | 1u << 3 | 1u << 2;
}

/* The receiver holds one byte. */
size_t bp_port_read(uint8_t *buffer, size_t capacity) {
    size_t length = 0;
    while (length < capacity && (BP_USART_SR & BP_USART_RXNE) != 0) {
        buffer[length++] = (uint8_t)BP_USART_IN;
    }
    return length;
}

void bp_port_write(const uint8_t *buffer, size_t length) {
    while (length--) {
        while ((BP_USART_SR & BP_USART_TXE) == 0) {
        }
        BP_USART_OUT = *buffer++;
    }
}

/* Wait until all of `bits` are set, but not for ever: an emulator may lack the register, and a
 * board its crystal. Returns whether they were set. */
static inline bool bp_stm32_wait(volatile uint32_t *reg, uint32_t mask, uint32_t bits) {
    for (uint32_t turns = 0; turns < 100000; turns++) {
        if ((*reg & mask) == bits) {
            return true;
        }
    }
    return false;
}

uint8_t bp_port_reset_cause(void) {
    return BP_RESET_UNKNOWN;
}

#endif
