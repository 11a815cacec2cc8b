/* SPDX-License-Identifier: Apache-2.0 */
/* The port of boards with an RP2040 and a crystal of 12 MHz: UART0 on GPIO 0 and 1, and the timer
 * of 1 MHz for ticks and timeouts. port.c includes it once. The image is in RAM.
 *
 * RP2040 data sheet: bus 2.1.2 (addresses 2.2), RESETS 2.14, CLOCKS 2.15, XOSC 2.16, PLL 2.18, GPIO
 * 2.19, UART 4.2, TIMER 4.6, WATCHDOG 4.7. */

#ifndef BP_ARCH_RP2040_H
#define BP_ARCH_RP2040_H

#define BP_TIMER_IRQ 0

#include "bp_arch_mpu.h"
#include "bp_arch_nvic.h"
#include "bp_arch_port.h"
#include "bp_arch_sample_systick.h"

#define BP_RP_REG(address) (*(volatile uint32_t *)(address))
#define BP_RP_CLEAR(address, bits) (BP_RP_REG((address) + 0x3000u) = (bits)) /* 2.1.2 */

#define BP_CLK_REF_CTRL BP_RP_REG(0x40008030u)
#define BP_CLK_REF_SELECTED BP_RP_REG(0x40008038u)
#define BP_CLK_SYS_CTRL BP_RP_REG(0x4000803cu)
#define BP_CLK_SYS_SELECTED BP_RP_REG(0x40008044u)
#define BP_CLK_PERI_CTRL BP_RP_REG(0x40008048u)
#define BP_RESETS 0x4000c000u
#define BP_RESET_DONE BP_RP_REG(0x4000c008u)
#define BP_GPIO_CTRL(n) BP_RP_REG(0x40014004u + 8u * (n))
#define BP_XOSC_CTRL BP_RP_REG(0x40024000u)
#define BP_XOSC_STATUS BP_RP_REG(0x40024004u)
#define BP_XOSC_STARTUP BP_RP_REG(0x4002400cu)
#define BP_PLL_CS BP_RP_REG(0x40028000u)
#define BP_PLL_PWR 0x40028004u
#define BP_PLL_FBDIV BP_RP_REG(0x40028008u)
#define BP_PLL_PRIM BP_RP_REG(0x4002800cu)
#define BP_UART_DR BP_RP_REG(0x40034000u)
#define BP_UART_FR BP_RP_REG(0x40034018u)
#define BP_UART_FR_RXFE (1u << 4)
#define BP_UART_FR_TXFF (1u << 5)
#define BP_UART_IBRD BP_RP_REG(0x40034024u)
#define BP_UART_FBRD BP_RP_REG(0x40034028u)
#define BP_UART_LCR_H BP_RP_REG(0x4003402cu)
#define BP_UART_CR BP_RP_REG(0x40034030u)
#define BP_TIMER_ALARM0 BP_RP_REG(0x40054010u)
#define BP_TIMER_ARMED BP_RP_REG(0x40054020u)
#define BP_TIMER_RAWH BP_RP_REG(0x40054024u)
#define BP_TIMER_RAWL BP_RP_REG(0x40054028u)
#define BP_TIMER_INTR BP_RP_REG(0x40054034u)
#define BP_TIMER_INTE BP_RP_REG(0x40054038u)
#define BP_WATCHDOG_TICK BP_RP_REG(0x4005802cu)

/// Clocks ///

/* Run the core at 12 MHz * 125 / 6 / 2. All waits are for hardware that every RP2040 has. */
static void bp_clock_init(void) {
    BP_XOSC_STARTUP = 47; /* 1 ms, in 256 periods */
    BP_XOSC_CTRL = 0xfabu << 12 | 0xaa0u;
    while ((BP_XOSC_STATUS & 1u << 31) == 0) {
    }
    BP_CLK_SYS_CTRL &= ~1u; /* leave the PLL, which the boot ROM may have set up */
    while (BP_CLK_SYS_SELECTED != 1u) {
    }
    BP_CLK_REF_CTRL = 2; /* XOSC */
    while (BP_CLK_REF_SELECTED != 1u << 2) {
    }
    BP_RP_CLEAR(BP_RESETS, 1u << 12);
    while ((BP_RESET_DONE & 1u << 12) == 0) {
    }
    BP_PLL_CS = 1; /* REFDIV */
    BP_PLL_FBDIV = 125;
    BP_RP_CLEAR(BP_PLL_PWR, 1u << 5 | 1u); /* VCOPD, PD */
    while ((BP_PLL_CS & 1u << 31) == 0) {
    }
    BP_PLL_PRIM = 6u << 16 | 2u << 12;
    BP_RP_CLEAR(BP_PLL_PWR, 1u << 3); /* POSTDIVPD */
    BP_CLK_SYS_CTRL = 0;              /* AUXSRC: the PLL */
    BP_CLK_SYS_CTRL = 1;              /* SRC: AUXSRC */
    while (BP_CLK_SYS_SELECTED != 1u << 1) {
    }
    BP_CLK_PERI_CTRL = 1u << 11 | 4u << 5; /* on, from XOSC */
    BP_WATCHDOG_TICK = 1u << 9 | 12u;      /* the timer's 1 MHz */
}

static const char bp_clock_source[] BP_ROM = "TIMER";

const bp_port_clock_t bp_port_clock BP_ROM = {
    .source = bp_clock_source,
    .ticks_hz = 1000000,
    .coarse_hz = 1000000,
    .ticks_bits = 64,
    .ticks_in_sleep = true,
};

uint64_t bp_port_ticks(void) {
    uint32_t high = BP_TIMER_RAWH, low = BP_TIMER_RAWL, again = BP_TIMER_RAWH;
    if (again != high) {
        low = BP_TIMER_RAWL; /* it has just wrapped */
    }
    return (uint64_t)again << 32 | low;
}

uint32_t bp_port_coarse(void) {
    return BP_TIMER_RAWL;
}

#if BP_CFG_INTERRUPTS
const bp_port_interrupts_t bp_port_interrupts BP_ROM = {.masks_guard = true};
#endif

uint8_t bp_port_reset_cause(void) {
    return BP_RESET_UNKNOWN;
}

/// The line to the host ///

size_t bp_port_read(uint8_t *buffer, size_t capacity) {
    size_t length = 0;
    while (length < capacity && (BP_UART_FR & BP_UART_FR_RXFE) == 0) {
        buffer[length++] = (uint8_t)BP_UART_DR;
    }
    return length;
}

void bp_port_write(const uint8_t *buffer, size_t length) {
    while (length--) {
        while ((BP_UART_FR & BP_UART_FR_TXFF) != 0) {
        }
        BP_UART_DR = *buffer++;
    }
}

static void bp_uart_init(void) {
    BP_GPIO_CTRL(0) = 2; /* UART0 TX, RX */
    BP_GPIO_CTRL(1) = 2;
    BP_UART_IBRD = 6; /* 12 MHz / 16 / 115200 is 6 and 33 / 64 */
    BP_UART_FBRD = 33;
    BP_UART_LCR_H = 3u << 5 | 1u << 4; /* 8 bits, FIFOs */
    BP_UART_CR = 1u << 9 | 1u << 8 | 1u;
}

/// Guarded calls ///

#if BP_CFG_GUARD

static uint32_t bp_rounds; /* of 2^32 us each, left until the limit */

static bool bp_is_over(void) {
    BP_TIMER_INTR = 1;
    if (bp_rounds != 0) {
        BP_TIMER_ALARM0 = BP_TIMER_ALARM0; /* arm it again */
    }
    return bp_rounds-- == 0;
}

void bp_port_guard(void (*body)(void *context), void *context, uint32_t timeout_ms,
                   bp_fault_t *fault) {
    static const bp_arch_guard_t board = {BP_ARCH_PLACES, .is_over = bp_is_over};
    uint64_t limit_us = (uint64_t)timeout_ms * 1000u;
    BP_TIMER_INTR = 1;
    bp_rounds = (uint32_t)(limit_us >> 32);
    if (timeout_ms != 0) {
        BP_TIMER_INTE = 1;
        BP_TIMER_ALARM0 = BP_TIMER_RAWL + (uint32_t)limit_us;
    }
    bp_arch_guard(&board, body, context, fault);
    BP_TIMER_INTE = 0;
    BP_TIMER_ARMED = 1; /* disarm it */
}

#endif

void bp_port_init(void) {
    uint32_t used = 1u << 22 | 1u << 21 | 1u << 8 | 1u << 5; /* UART0, TIMER, PADS, IO */
    bp_clock_init();
    BP_RP_CLEAR(BP_RESETS, used);
    while ((BP_RESET_DONE & used) != used) {
    }
    bp_uart_init();
#if BP_CFG_GUARD
    bp_arch_nvic_init();
    bp_arch_protect(0, 0);
#endif
}

#endif
