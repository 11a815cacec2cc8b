/* SPDX-License-Identifier: Apache-2.0 */
/* MPS2 with the AN385 image: CMSDK UART 0 (DDI 0479) and the FPGA's counters (DAI 0385). */

#include "hal.h"

#define UART_DATA (*(volatile uint32_t *)0x40004000u)
#define UART_STATE (*(volatile uint32_t *)0x40004004u)
#define UART_CTRL (*(volatile uint32_t *)0x40004008u)
#define UART_BAUDDIV (*(volatile uint32_t *)0x40004010u)
#define UART_TX_FULL 1u
#define UART_RX_FULL 2u
#define FPGAIO_CLK100HZ (*(volatile uint32_t *)0x40028014u)
#define FPGAIO_COUNTER (*(volatile uint32_t *)0x40028018u)

void hal_init(void) {
    UART_BAUDDIV = 217; /* 115200 */
    UART_CTRL = 3;      /* transmitter and receiver on */
    (void)UART_DATA;    /* discards old bytes; also, QEMU polls the line only after a read */
}

bool uart_has_byte(void) {
    return (UART_STATE & UART_RX_FULL) != 0;
}

uint8_t uart_get(void) {
    return (uint8_t)UART_DATA;
}

void uart_put(uint8_t byte) {
    while ((UART_STATE & UART_TX_FULL) != 0) {
    }
    UART_DATA = byte;
}

uint64_t timer_now(void) {
    return FPGAIO_COUNTER;
}

uint32_t slow_timer_now(void) {
    return FPGAIO_CLK100HZ;
}
