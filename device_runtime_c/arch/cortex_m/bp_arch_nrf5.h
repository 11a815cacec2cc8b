/* SPDX-License-Identifier: Apache-2.0 */
/* The port of boards with an nRF51 or nRF52: UART0, and TIMER0 at 16 MHz for ticks and timeouts.
 * port.c includes it once. Before that, port.c defines its pins of P0, and BP_NRF5_ROM_BYTES if
 * there is a memory protection unit.
 *
 * nRF51 Series Reference Manual (v3.0): CLOCK 13, GPIO 14, TIMER 19, UART 28. The nRF52840 Product
 * Specification (v1.7) has the same registers at the same addresses: 5.4, 6.9, 6.30, 6.33. */

#ifndef BP_ARCH_NRF5_H
#define BP_ARCH_NRF5_H

#ifndef BP_NRF5_TX_PIN
#define BP_NRF5_TX_PIN 24
#define BP_NRF5_RX_PIN 25
#endif

#define BP_TIMER_IRQ 8

#include "bp_arch_mpu.h"
#include "bp_arch_nvic.h"
#include "bp_arch_port.h"

#define BP_NRF5_REG(address) (*(volatile uint32_t *)(address))

#define BP_CLOCK_HFCLKSTART BP_NRF5_REG(0x40000000u)
#define BP_CLOCK_HFCLKSTARTED BP_NRF5_REG(0x40000100u)
#define BP_GPIO_OUTSET BP_NRF5_REG(0x50000508u)
#define BP_GPIO_DIRSET BP_NRF5_REG(0x50000518u)

#define BP_UART_STARTRX BP_NRF5_REG(0x40002000u)
#define BP_UART_STARTTX BP_NRF5_REG(0x40002008u)
#define BP_UART_RXDRDY BP_NRF5_REG(0x40002108u)
#define BP_UART_TXDRDY BP_NRF5_REG(0x4000211cu)
#define BP_UART_ENABLE BP_NRF5_REG(0x40002500u)
#define BP_UART_PSELTXD BP_NRF5_REG(0x4000250cu)
#define BP_UART_PSELRXD BP_NRF5_REG(0x40002514u)
#define BP_UART_RXD BP_NRF5_REG(0x40002518u)
#define BP_UART_TXD BP_NRF5_REG(0x4000251cu)
#define BP_UART_BAUDRATE BP_NRF5_REG(0x40002524u)
#define BP_UART_115200 0x01d7e000u

#define BP_TIMER_START BP_NRF5_REG(0x40008000u)
#define BP_TIMER_CAPTURE0 BP_NRF5_REG(0x40008040u)
#define BP_TIMER_COMPARE(n) BP_NRF5_REG(0x40008140u + 4u * (n))
#define BP_TIMER_INTENSET BP_NRF5_REG(0x40008304u)
#define BP_TIMER_INTENCLR BP_NRF5_REG(0x40008308u)
#define BP_TIMER_BITMODE BP_NRF5_REG(0x40008508u)
#define BP_TIMER_PRESCALER BP_NRF5_REG(0x40008510u)
#define BP_TIMER_CC(n) BP_NRF5_REG(0x40008540u + 4u * (n))
#define BP_TIMER_HZ 16000000u
#define BP_TIMER_32_BITS 3u

/* CC[0] captures the count for bp_port_ticks. */
enum { BP_LIMIT = 1, BP_WRAP = 2, BP_LAST = 3 };
#define BP_TIMER_INTS (1u << (16 + BP_LIMIT) | 1u << (16 + BP_WRAP))

/// Clocks ///

static volatile uint32_t bp_wraps; /* of TIMER0, one every 268 s */
static volatile bool bp_was_cleared;
static uint32_t bp_limit_at; /* where the last guarded call ends at the latest */

/* In a guarded call the timer's interrupt counts wraps; otherwise bp_port_read does. Before it
 * wraps, the counter has its last value. If it had not, somebody has cleared it. */
static void bp_count_wrap(void) {
    if (BP_TIMER_COMPARE(BP_WRAP) != 0) {
        bp_was_cleared = bp_was_cleared || BP_TIMER_COMPARE(BP_LAST) == 0;
        BP_TIMER_COMPARE(BP_LAST) = 0;
        BP_TIMER_COMPARE(BP_WRAP) = 0;
        bp_wraps++;
    }
}

static const char bp_clock_source[] BP_ROM = "TIMER0";

const bp_port_clock_t bp_port_clock BP_ROM = {
    .source = bp_clock_source,
    .ticks_hz = BP_TIMER_HZ,
    .ticks_bits = 64,
    .ticks_in_sleep = true,
};

uint64_t bp_port_ticks(void) {
    uint32_t wraps, low;
    bool wrapped;
    do {
        wraps = bp_wraps;
        BP_TIMER_CAPTURE0 = 1;
        low = BP_TIMER_CC(0);
        wrapped = BP_TIMER_COMPARE(BP_WRAP) != 0;
    } while (wraps != bp_wraps);
    /* A pending wrap has just happened. Add it if it came before the capture. */
    return (uint64_t)(wraps + (wrapped && low < 1u << 31)) << 32 | low;
}

uint32_t bp_port_coarse(void) {
    return 0;
}

#if BP_CFG_INTERRUPTS
/* A pending wrap is accounted for during half a lap. */
const bp_port_interrupts_t bp_port_interrupts BP_ROM = {
    .longest_us = (1u << 31) / (BP_TIMER_HZ / 1000000u), .masks_guard = true};
#endif

static void bp_timer_set(void) {
    BP_TIMER_BITMODE = BP_TIMER_32_BITS;
    BP_TIMER_PRESCALER = 0;
    BP_TIMER_CC(BP_WRAP) = 0;
    BP_TIMER_CC(BP_LAST) = UINT32_MAX;
    BP_TIMER_CC(BP_LIMIT) = bp_limit_at;
    BP_TIMER_START = 1; /* no effect if it runs */
}

/* Whether it runs cannot be read, but seen: a tick takes a few instructions. */
bool bp_port_clock_intact(void) {
    bp_count_wrap();
    bool intact = BP_TIMER_BITMODE == BP_TIMER_32_BITS && BP_TIMER_PRESCALER == 0 &&
                  BP_TIMER_CC(BP_WRAP) == 0 && BP_TIMER_CC(BP_LAST) == UINT32_MAX &&
                  BP_TIMER_CC(BP_LIMIT) == bp_limit_at && !bp_was_cleared;
    bp_was_cleared = false;
    uint64_t before = bp_port_ticks();
    bool moves = false;
    for (uint32_t i = 0; i < 100 && !moves; i++) {
        moves = bp_port_ticks() != before;
    }
    intact = intact && moves;
    if (!intact) {
        bp_timer_set();
    }
    return intact;
}

uint8_t bp_port_reset_cause(void) {
    return BP_RESET_UNKNOWN;
}

/// The line to the host ///

/* The receiver holds six bytes. */
size_t bp_port_read(uint8_t *buffer, size_t capacity) {
    size_t length = 0;
    bp_count_wrap();
    while (length < capacity && BP_UART_RXDRDY != 0) {
        BP_UART_RXDRDY = 0; /* before taking the byte: the next one sets it again */
        buffer[length++] = (uint8_t)BP_UART_RXD;
    }
    return length;
}

void bp_port_write(const uint8_t *buffer, size_t length) {
    while (length--) {
        BP_UART_TXDRDY = 0;
        BP_UART_TXD = *buffer++;
        while (BP_UART_TXDRDY == 0) {
        }
    }
}

static void bp_uart_init(void) {
    BP_GPIO_OUTSET = 1u << BP_NRF5_TX_PIN; /* the line is high when idle */
    BP_GPIO_DIRSET = 1u << BP_NRF5_TX_PIN;
    BP_UART_PSELTXD = BP_NRF5_TX_PIN;
    BP_UART_PSELRXD = BP_NRF5_RX_PIN;
    BP_UART_BAUDRATE = BP_UART_115200;
    BP_UART_ENABLE = 4;
    BP_UART_STARTRX = 1;
    BP_UART_STARTTX = 1;
}

/// Guarded calls ///

#if BP_CFG_GUARD

static uint64_t bp_limit; /* ticks; UINT64_MAX if there is no limit */

/* The event comes every 2^32 ticks, and QEMU may repeat it when it is cleared. */
static bool bp_is_over(void) {
    bp_count_wrap();
    if (BP_TIMER_COMPARE(BP_LIMIT) == 0) {
        return false;
    }
    BP_TIMER_COMPARE(BP_LIMIT) = 0;
    return bp_port_ticks() >= bp_limit;
}

void bp_port_guard(void (*body)(void *context), void *context, uint32_t timeout_ms,
                   bp_fault_t *fault) {
    static const bp_arch_guard_t board = {BP_ARCH_PLACES, .is_over = bp_is_over};
    uint64_t limit = bp_port_ticks() + (uint64_t)timeout_ms * (BP_TIMER_HZ / 1000u);
    bp_limit = timeout_ms != 0 ? limit : UINT64_MAX;
    bp_limit_at = (uint32_t)limit;
    BP_TIMER_CC(BP_LIMIT) = bp_limit_at;
    BP_TIMER_COMPARE(BP_LIMIT) = 0;
    BP_TIMER_INTENSET = timeout_ms != 0 ? BP_TIMER_INTS : 1u << (16 + BP_WRAP);
    bp_arch_guard(&board, body, context, fault);
    BP_TIMER_INTENCLR = BP_TIMER_INTS;
}

#endif

/* The UART's rate needs the crystal. If there is none, the wait ends and the chip uses its own
 * oscillator. */
void bp_port_init(void) {
    BP_CLOCK_HFCLKSTART = 1;
    for (uint32_t turns = 0; turns < 100000 && BP_CLOCK_HFCLKSTARTED == 0; turns++) {
    }
    bp_timer_set();
    bp_uart_init();
#if BP_CFG_GUARD
    bp_arch_nvic_init();
#ifdef BP_NRF5_ROM_BYTES
    bp_arch_protect(0, BP_NRF5_ROM_BYTES);
#endif
#endif
}

#endif
