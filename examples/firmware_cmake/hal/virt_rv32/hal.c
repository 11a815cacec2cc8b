/* SPDX-License-Identifier: Apache-2.0 */
/* QEMU's virt machine: an NS16550A, and the CLINT's mtime at 10 MHz. */

#include "hal.h"

#define UART_DATA (*(volatile uint8_t *)0x10000000u)
#define UART_FCR (*(volatile uint8_t *)0x10000002u)
#define UART_LCR (*(volatile uint8_t *)0x10000003u)
#define UART_LSR (*(volatile uint8_t *)0x10000005u)
#define UART_RX_READY 0x01u
#define UART_TX_EMPTY 0x20u
#define MTIME_LOW (*(volatile uint32_t *)0x0200bff8u)
#define MTIME_HIGH (*(volatile uint32_t *)0x0200bffcu)

void hal_init(void) {
    UART_LCR = 0x03; /* eight data bits */
    UART_FCR = 0x07; /* FIFOs on and empty */
    (void)UART_DATA; /* QEMU polls the line only after a read */
}

bool uart_has_byte(void) {
    return (UART_LSR & UART_RX_READY) != 0;
}

uint8_t uart_get(void) {
    return UART_DATA;
}

void uart_put(uint8_t byte) {
    while ((UART_LSR & UART_TX_EMPTY) == 0) {
    }
    UART_DATA = byte;
}

/* Read again if the low half has wrapped in between. */
uint64_t timer_now(void) {
    uint32_t high, low;
    do {
        high = MTIME_HIGH;
        low = MTIME_LOW;
    } while (high != MTIME_HIGH);
    return (uint64_t)high << 32 | low;
}

uint32_t slow_timer_now(void) {
    return 0;
}
