/* SPDX-License-Identifier: Apache-2.0 */
/* NUCLEO-H743ZI (UM1974): ST-LINK has USART3 on PD8 and PD9. All clocks are as after reset: HSI at
 * 64 MHz, undivided. Registers: RM0433, memory map 2.3, RCC 8.7, GPIO 11.4. */

#define BP_SYSTICK_HZ 64000000u
#define BP_USART 0x40004800u
#define BP_USART_HAS_ISR

#include "bp_arch_mpu.h"
#include "bp_arch_stm32.h"
#include "bp_arch_systick.h"

#define BP_RCC_AHB4ENR BP_STM32_REG(0x580244e0u)
#define BP_RCC_APB1LENR BP_STM32_REG(0x580244e8u)
#define BP_GPIOD_MODER BP_STM32_REG(0x58020c00u)
#define BP_GPIOD_AFRH BP_STM32_REG(0x58020c24u)

void bp_port_init(void) {
    BP_RCC_AHB4ENR |= 1u << 3;   /* port D */
    BP_RCC_APB1LENR |= 1u << 18; /* USART3 */
    (void)BP_RCC_APB1LENR;       /* it takes effect when this read is done (8.5.11) */
    BP_GPIOD_AFRH = (BP_GPIOD_AFRH & ~0xffu) | 0x77u; /* AF7 */
    BP_GPIOD_MODER = (BP_GPIOD_MODER & ~(15u << 16)) | 10u << 16;
    bp_usart_init(BP_SYSTICK_HZ, 115200);
#if BP_CFG_GUARD
    bp_arch_protect(0x08000000u, 1u << 21);
#endif
    bp_systick_init();
}
