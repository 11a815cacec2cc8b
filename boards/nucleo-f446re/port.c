/* SPDX-License-Identifier: Apache-2.0 */
/* NUCLEO-F446RE (UM1724): ST-LINK supplies 8 MHz at HSE, and has USART2 on PA2 and PA3. */

#define BP_SYSTICK_HZ 168000000u
#define BP_USART 0x40004400u

#include "bp_arch_stm32f4.h"
#include "bp_arch_systick.h"

void bp_port_init(void) {
    bp_stm32f4_clock(BP_HSE_BYPASS, 8, 336);
    BP_RCC_APB1ENR |= 1u << 17; /* USART2 */
    (void)BP_RCC_APB1ENR;       /* errata: it is not on at once, but after this read */
    bp_stm32f4_pin(0, 2);
    bp_stm32f4_pin(0, 3);
    bp_usart_init(BP_SYSTICK_HZ / 4, 115200);
#if BP_CFG_GUARD
    bp_arch_protect(0x08000000u, 1u << 19);
#endif
    bp_systick_init();
}
