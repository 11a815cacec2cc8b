/* SPDX-License-Identifier: Apache-2.0 */
/* The line to the host on an NS16550A, polled: PC16550D data sheet (TI, SNLS378), 8. port.c
 * includes it once, and before that defines BP_UART, the address of its registers, which are one
 * byte apart. */

#ifndef BP_ARCH_16550_H
#define BP_ARCH_16550_H

#include <stddef.h>
#include <stdint.h>

#include "boardprof/bp_port.h"

#ifdef BP_UART

#define BP_UART_DATA (*(volatile uint8_t *)(BP_UART + 0)) /* RBR when read, THR when written */
#define BP_UART_FCR (*(volatile uint8_t *)(BP_UART + 2))
#define BP_UART_LCR (*(volatile uint8_t *)(BP_UART + 3))
#define BP_UART_LSR (*(volatile uint8_t *)(BP_UART + 5))
#define BP_UART_LSR_DR 0x01u   /* data ready */
#define BP_UART_LSR_THRE 0x20u /* transmitter holding register empty */

static void bp_uart_init(void) {
    BP_UART_LCR = 0x03; /* eight data bits */
    /* Enable and clear the FIFOs, receive trigger at 14 bytes: QEMU takes that many from the host
     * at once. Clearing may lose one byte that has already come. A frame's first byte is a
     * delimiter, so this does no harm. */
    BP_UART_FCR = 0xc7;
    /* QEMU polls the line only after a read. Without this one, the host's first frame waits a
     * second. */
    (void)BP_UART_DATA;
}

size_t bp_port_read(uint8_t *buffer, size_t capacity) {
    size_t length = 0;
    while (length < capacity && (BP_UART_LSR & BP_UART_LSR_DR) != 0) {
        buffer[length++] = BP_UART_DATA;
    }
    return length;
}

void bp_port_write(const uint8_t *buffer, size_t length) {
    while (length--) {
        while ((BP_UART_LSR & BP_UART_LSR_THRE) == 0) {
        }
        BP_UART_DATA = *buffer++;
    }
}

#endif

#endif
