/* SPDX-License-Identifier: Apache-2.0 */
/* QEMU's RISC-V "virt" machine: NS16550A, CLINT and PLIC. */

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"
#include "bp_arch.h"

/* PC16550D data sheet (TI, SNLS378), 8: registers, one byte apart. */
#define BP_UART_DATA (*(volatile uint8_t *)0x10000000u) /* RBR when read, THR when written */
#define BP_UART_IER (*(volatile uint8_t *)0x10000001u)
#define BP_UART_FCR (*(volatile uint8_t *)0x10000002u)
#define BP_UART_LCR (*(volatile uint8_t *)0x10000003u)
#define BP_UART_LSR (*(volatile uint8_t *)0x10000005u)
#define BP_UART_LSR_DR 0x01u   /* data ready */
#define BP_UART_LSR_THRE 0x20u /* transmitter holding register empty */

/* RISC-V PLIC specification 1.0.0; the UART is source 10, context 0 is hart 0 in machine mode. */
#define BP_PLIC_PRIORITY_10 (*(volatile uint32_t *)0x0c000028u)
#define BP_PLIC_ENABLE_0 (*(volatile uint32_t *)0x0c002000u)
#define BP_PLIC_CLAIM_0 (*(volatile uint32_t *)0x0c200004u)

static uint32_t bp_boots __attribute__((section(".noinit")));

void bp_port_init(void) {
    bp_boots++;
    BP_UART_LCR = 0x03; /* eight data bits */
    /* FIFOs on and cleared, receive trigger at 14 bytes: QEMU takes as many from the host at once.
     * Clearing may lose the one byte that came before; a frame's first byte is a delimiter. */
    BP_UART_FCR = 0xc7;
    /* The receive interrupt, as far as mie.MEIE: it ends wfi, and mstatus.MIE stays clear, so that
     * no trap is taken (RISC-V privileged manual, version 20211203, 3.1.9 and 3.3.3). */
    BP_UART_IER = 0x01;
    BP_PLIC_PRIORITY_10 = 1;
    BP_PLIC_ENABLE_0 = 1u << 10;
    __asm__ volatile("csrs mie, %0" ::"r"(1u << 11));
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

/* A core that polls holds QEMU up at each byte, slows the line down several times and takes a whole
 * CPU of the host. A claimed source is pending no more; writing the claim back completes it, so
 * that the next byte can wake the core again. */
void bp_port_idle(void) {
    __asm__ volatile("wfi");
    BP_PLIC_CLAIM_0 = BP_PLIC_CLAIM_0;
}

/* The CLINT's mtime counts virtual time (privileged manual, 3.2.1). */
static const char bp_clock_source[] BP_ROM = "mtime";

const bp_port_clock_t bp_port_clock BP_ROM = {
    .source = bp_clock_source,
    .ticks_hz = 10000000u,
    .ticks_bits = 64,
};

uint64_t bp_port_ticks(void) {
    return bp_arch_mtime(0x0200bff8u);
}

uint32_t bp_port_coarse(void) {
    return 0;
}

uint8_t bp_port_reset_cause(void) {
    return BP_RESET_UNKNOWN;
}

/* The factor (2^32 / golden ratio) spreads the count over the word. */
uint32_t bp_port_boot_id(void) {
    return bp_boots * 0x9e3779b1u ^ bp_arch_cycles32();
}
