/* SPDX-License-Identifier: Apache-2.0 */
/* SiFive's HiFive1: FE310-G000, an E31 core at 16 MHz.
 *
 * SiFive FE310-G000 Manual, cited by chapter name (the FE310-G002's has the same chapters): "Memory
 * Map", "Clock Generation" (HFROSCCFG, HFXOSCCFG, PLLCFG, PLLOUTDIV), "General Purpose Input/Output
 * Controller (GPIO)", "Universal Asynchronous Receiver/Transmitter (UART)", "Core-Local Interruptor
 * (CLINT)". Run only on QEMU, which has no clock tree: that part is unverified. */

#include <stddef.h>
#include <stdint.h>

#define BP_HZ 16000000u /* from the crystal */
#define BP_MTIME 0x0200bff8u
#define BP_MTIMECMP 0x02004000u
/* Never too short: the current tick is not a whole one, and the product is rounded down. 0 means
 * without a limit. */
#define BP_MTIME_OF(ms) ((ms) == 0 ? 0 : ((uint64_t)(ms) * bp_mtime_in_1024_ms >> 10) + 2)
#define BP_STACK_GUARD_BYTES 1024u
#define BP_SAMPLE_USUAL 18u
#define BP_SAMPLE_DITHER 488u
#define BP_NULL_BYTES 4096u /* the debugger's area; the debugger is not affected */

static uint32_t bp_mtime_in_1024_ms = 33554; /* of the 32,768 Hz crystal, until measured */

#include "bp_arch_port.h"

#define BP_REG(address) (*(volatile uint32_t *)(address))
#define BP_HFROSCCFG BP_REG(0x10008000u)
#define BP_HFXOSCCFG BP_REG(0x10008004u)
#define BP_PLLCFG BP_REG(0x10008008u)
#define BP_PLLOUTDIV BP_REG(0x1000800cu)
#define BP_GPIO_IOF_EN BP_REG(0x10012038u)
#define BP_UART_TXDATA BP_REG(0x10013000u)
#define BP_UART_RXDATA BP_REG(0x10013004u)
#define BP_UART_TXCTRL BP_REG(0x10013008u)
#define BP_UART_RXCTRL BP_REG(0x1001300cu)
#define BP_UART_DIV BP_REG(0x10013018u)
#define BP_OSC_EN (1u << 30)
#define BP_OSC_RDY (1u << 31)

/* Run from the crystal, bypassing the PLL, since the rate of the on-chip oscillator is not known.
 */
static void bp_clock_init(void) {
    enum { SEL = 1 << 16, REFSEL = 1 << 17, BYPASS = 1 << 18, DIVIDE_BY_1 = 1 << 8 };
    BP_HFXOSCCFG = BP_OSC_EN;
    for (uint32_t i = 0; i < 100000 && (BP_HFXOSCCFG & BP_OSC_RDY) == 0; i++) {
    }
    if ((BP_HFXOSCCFG & BP_OSC_RDY) == 0) {
        return; /* no crystal: without the oscillator the core would stop */
    }
    BP_PLLOUTDIV = DIVIDE_BY_1;
    BP_PLLCFG = REFSEL | BYPASS;
    BP_PLLCFG = REFSEL | BYPASS | SEL;
    BP_HFROSCCFG &= ~BP_OSC_EN;
}

/* Measure mtime's rate with the core's clock. mtime counts another crystal, which may be inaccurate
 * or not run at all. It ticks every 488 cycles; on QEMU every 100, from QEMU 9 on every 30,518. An
 * edge is seen some 20 cycles late, which is little of LEAST. */
static void bp_mtime_measure(void) {
    enum { TICKS = 8, LEAST = 6000, PATIENCE = 1000000 };
    uint32_t before = (uint32_t)bp_arch_counter_at(BP_MTIME), begin = bp_arch_cycles32();
    while ((uint32_t)bp_arch_counter_at(BP_MTIME) == before &&
           bp_arch_cycles32() - begin < PATIENCE) {
    }
    uint32_t first = (uint32_t)bp_arch_counter_at(BP_MTIME), edge = bp_arch_cycles32(), cycles = 0,
             ticks;
    do {
        ticks = (uint32_t)bp_arch_counter_at(BP_MTIME) - first;
        cycles = bp_arch_cycles32() - edge;
    } while ((ticks < TICKS || cycles < LEAST) && cycles < PATIENCE);
    if (ticks >= TICKS) {
        bp_mtime_in_1024_ms = BP_HZ / 1000 * 1024 * ticks / cycles;
    }
}

void bp_port_init(void) {
    bp_arch_port_init();
    bp_clock_init();
    bp_mtime_measure();
    BP_GPIO_IOF_EN |= 3u << 16; /* pins 16 and 17 belong to the UART */
    BP_UART_DIV = BP_HZ / 115200u - 1;
    BP_UART_TXCTRL = 1;
    BP_UART_RXCTRL = 1;
}

size_t bp_port_read(uint8_t *buffer, size_t capacity) {
    size_t length = 0;
    uint32_t data;
    while (length < capacity && ((data = BP_UART_RXDATA) >> 31) == 0) {
        buffer[length++] = (uint8_t)data;
    }
    return length;
}

void bp_port_write(const uint8_t *buffer, size_t length) {
    while (length--) {
        while (BP_UART_TXDATA >> 31 != 0) {
        }
        BP_UART_TXDATA = *buffer++;
    }
}

/* Counts every cycle; mtime ticks only every 488th. */
static const char bp_clock_source[] BP_ROM = BP_ARCH_CYCLES_SOURCE;

const bp_port_clock_t bp_port_clock BP_ROM = {
    .source = bp_clock_source,
    .ticks_hz = BP_HZ,
    .ticks_bits = 64,
};

uint64_t bp_port_ticks(void) {
    return bp_arch_cycles();
}
