/* SPDX-License-Identifier: Apache-2.0 */
/* QEMU's "mps2-an385" machine: Cortex-M3, CMSDK UART, FPGAIO counters; all of it at 25 MHz. */

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"

/* Cortex-M System Design Kit (DDI 0479), APB UART. */
#define BP_UART_DATA (*(volatile uint32_t *)0x40004000u)
#define BP_UART_STATE (*(volatile uint32_t *)0x40004004u)
#define BP_UART_CTRL (*(volatile uint32_t *)0x40004008u)
#define BP_UART_BAUDDIV (*(volatile uint32_t *)0x40004010u)
#define BP_UART_TX 1u /* in STATE: the buffer is full; in CTRL: enable */
#define BP_UART_RX 2u /* the same for the receiver */

/* Application note AN385 (DAI 0385), FPGA system control and I/O. */
#define BP_FPGAIO_CLK100HZ (*(volatile uint32_t *)0x40028014u)
#define BP_FPGAIO_COUNTER (*(volatile uint32_t *)0x40028018u)

static uint32_t bp_boots __attribute__((section(".noinit")));

void bp_port_init(void) {
    bp_boots++;
    BP_UART_BAUDDIV = 16; /* the least that it takes; QEMU sends at once anyway */
    BP_UART_CTRL = BP_UART_TX | BP_UART_RX;
    /* Only a read makes QEMU look at the line again; else the host's first frame waits a second. */
    (void)BP_UART_DATA;
}

size_t bp_port_read(uint8_t *buffer, size_t capacity) {
    size_t length = 0;
    while (length < capacity && (BP_UART_STATE & BP_UART_RX) != 0) {
        buffer[length++] = (uint8_t)BP_UART_DATA;
    }
    return length;
}

void bp_port_write(const uint8_t *buffer, size_t length) {
    while (length--) {
        while ((BP_UART_STATE & BP_UART_TX) != 0) {
        }
        BP_UART_DATA = *buffer++;
    }
}

/* No wfi: while the core sleeps, QEMU moves its clock on to the next timer, and ticks would count
 * time in which nothing ran. */
void bp_port_idle(void) {
}

/* COUNTER wraps every 172 s. The CMSDK timers would do as well, but QEMU's clock jumps to the next
 * time that a running timer ends whenever the core sleeps, and an up-counter has no end. */
static const char bp_clock_source[] BP_ROM = "FPGAIO COUNTER";

const bp_port_clock_t bp_port_clock BP_ROM = {
    .source = bp_clock_source,
    .ticks_hz = 25000000u,
    .coarse_hz = 100,
    .ticks_bits = 32,
    .ticks_in_sleep = true,
};

uint64_t bp_port_ticks(void) {
    return BP_FPGAIO_COUNTER;
}

uint32_t bp_port_coarse(void) {
    return BP_FPGAIO_CLK100HZ;
}

uint8_t bp_port_reset_cause(void) {
    return BP_RESET_UNKNOWN;
}

/* The factor (2^32 / golden ratio) spreads the count over the word. */
uint32_t bp_port_boot_id(void) {
    return bp_boots * 0x9e3779b1u ^ BP_FPGAIO_COUNTER;
}
