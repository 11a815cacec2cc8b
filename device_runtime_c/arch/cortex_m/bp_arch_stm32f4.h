/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks and pins of STM32F4, for the port.c of such boards. Registers: RM0090 (STM32F405) and
 * RM0390 (STM32F446), memory map 2.3 and 2.2, FLASH 3.9 and 3.8, RCC 7.3 and 6.3, GPIO 8.4 and 7.4.
 * The parts used here are the same in both. */

#ifndef BP_ARCH_STM32F4_H
#define BP_ARCH_STM32F4_H

#include "bp_arch_mpu.h"
#include "bp_arch_stm32.h"

#define BP_FLASH_ACR BP_STM32_REG(0x40023c00u)
#define BP_RCC_CR BP_STM32_REG(0x40023800u)
#define BP_RCC_PLLCFGR BP_STM32_REG(0x40023804u)
#define BP_RCC_CFGR BP_STM32_REG(0x40023808u)
#define BP_RCC_AHB1ENR BP_STM32_REG(0x40023830u)
#define BP_RCC_APB1ENR BP_STM32_REG(0x40023840u)
#define BP_RCC_APB2ENR BP_STM32_REG(0x40023844u)

/* Run the core at 336 MHz / 2: HSE divided by `m`, times `n`. APB1 runs at a fourth of that, APB2
 * at half. `hse` is RCC_CR's HSEON, plus HSEBYP if another chip generates the clock. An emulator
 * has no RCC, and the right clock from the start. */
static inline void bp_stm32f4_clock(uint32_t hse, uint32_t m, uint32_t n) {
    BP_RCC_CR |= hse;
    if (!bp_stm32_wait(&BP_RCC_CR, 1u << 17, 1u << 17)) { /* HSERDY */
        return;
    }
    BP_FLASH_ACR = 7u << 8 | 5u; /* caches, five wait states */
    /* Q 7, from HSE, P 2; R 2, since 0 is invalid on chips that have R (RM0390, 6.3.2). */
    BP_RCC_PLLCFGR = 2u << 28 | 7u << 24 | 1u << 22 | n << 6 | m;
    BP_RCC_CFGR = 4u << 13 | 5u << 10; /* APB2 / 2, APB1 / 4 */
    BP_RCC_CR |= 1u << 24;             /* PLLON */
    if (bp_stm32_wait(&BP_RCC_CR, 1u << 25, 1u << 25)) {
        BP_RCC_CFGR |= 2u; /* SW: PLL */
        (void)bp_stm32_wait(&BP_RCC_CFGR, 12u, 8u);
    }
}

#define BP_HSE_ON (1u << 16)
#define BP_HSE_BYPASS (1u << 18 | BP_HSE_ON)

/* Switch pin `pin` of port `port` (0: A) to alternate function 7, usually a USART. */
static inline void bp_stm32f4_pin(uint32_t port, uint32_t pin) {
    uint32_t gpio = 0x40020000u + 0x400u * port;
    volatile uint32_t *moder = &BP_STM32_REG(gpio);
    volatile uint32_t *afr = &BP_STM32_REG(gpio + 0x20u + 4u * (pin / 8));
    BP_RCC_AHB1ENR |= 1u << port;
    (void)BP_RCC_AHB1ENR; /* errata: the port is not on at once, but after this read */
    *afr = (*afr & ~(15u << pin % 8 * 4)) | 7u << pin % 8 * 4;
    *moder = (*moder & ~(3u << 2 * pin)) | 2u << 2 * pin;
}

#endif
