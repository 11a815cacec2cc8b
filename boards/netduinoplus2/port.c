/* SPDX-License-Identifier: Apache-2.0 */
/* Netduino Plus 2: STM32F405RG with a crystal of 25 MHz; USART1 on PB6 and PB7, pins SC and SD. */

#define BP_SYSTICK_HZ 168000000u
#define BP_USART 0x40011000u

#include "bp_arch_stm32f4.h"
#include "bp_arch_systick.h"

void bp_port_init(void) {
    bp_stm32f4_clock(BP_HSE_ON, 25, 336);
    BP_RCC_APB2ENR |= 1u << 4; /* USART1 */
    (void)BP_RCC_APB2ENR;      /* errata: it is not on at once, but after this read */
    bp_stm32f4_pin(1, 6);
    bp_stm32f4_pin(1, 7);
    bp_usart_init(BP_SYSTICK_HZ / 2, 115200);
#if BP_CFG_GUARD
    bp_arch_protect(0x08000000u, 1u << 20);
#endif
    bp_systick_init();
}
