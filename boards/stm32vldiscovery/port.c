/* SPDX-License-Identifier: Apache-2.0 */
/* STM32VLDISCOVERY: STM32F100RB at 24 MHz, USART1 on PA9 and PA10 (UM0919, extension connectors).
 * Registers: RM0041, memory map 2.3, RCC 6.3, GPIO 7.2. */

#define BP_SYSTICK_HZ 24000000u
#define BP_USART 0x40013800u

#include "bp_arch_stm32.h"
#include "bp_arch_systick.h"

#define BP_RCC_CR BP_STM32_REG(0x40021000u)
#define BP_RCC_CFGR BP_STM32_REG(0x40021004u)
#define BP_RCC_APB2ENR BP_STM32_REG(0x40021018u)
#define BP_GPIOA_CRH BP_STM32_REG(0x40010804u)

/* The crystal of 8 MHz, times three. An emulator has no RCC, and the right clock from the start. */
static void bp_clock_init(void) {
    BP_RCC_CR |= 1u << 16; /* HSEON */
    (void)bp_stm32_wait(&BP_RCC_CR, 1u << 17, 1u << 17);
    BP_RCC_CFGR = 1u << 18 | 1u << 16; /* PLLMUL 3, PLLSRC HSE */
    BP_RCC_CR |= 1u << 24;             /* PLLON */
    if (bp_stm32_wait(&BP_RCC_CR, 1u << 25, 1u << 25)) {
        BP_RCC_CFGR |= 2u; /* SW: PLL */
    }
}

void bp_port_init(void) {
    bp_clock_init();
    BP_RCC_APB2ENR |= 1u << 14 | 1u << 2; /* USART1, port A */
    (void)BP_RCC_APB2ENR;                 /* they are not on at once, but after this read */
    BP_GPIOA_CRH = 0x444444b4u;           /* PA9: alternate function, 50 MHz; others: input */
    bp_usart_init(BP_SYSTICK_HZ, 115200);
    bp_systick_init();
}
