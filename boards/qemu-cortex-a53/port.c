/* SPDX-License-Identifier: Apache-2.0 */
/* QEMU's Arm "virt" machine: PL011 and GICv2, at the addresses of base_memmap in QEMU's
 * hw/arm/virt.c. */

#define BP_TICKS_HZ 62500000u
#define BP_SAMPLE_USUAL 110u
#define BP_SAMPLE_DITHER 16u /* with -icount shift=0 */

#include "bp_arch_gic.h"
#include "bp_arch_port.h"

#define BP_GIC 0x08000000u /* the distributor; the CPU interface follows 64 KiB later */

/* PrimeCell UART PL011 (DDI 0183), 3.3. */
#define BP_UART 0x09000000u
#define BP_UART_DR (*(volatile uint32_t *)(BP_UART + 0x000))
#define BP_UART_FR (*(volatile uint32_t *)(BP_UART + 0x018))
#define BP_UART_LCR (*(volatile uint32_t *)(BP_UART + 0x02c))
#define BP_UART_CR (*(volatile uint32_t *)(BP_UART + 0x030))
#define BP_UART_FR_RXFE (1u << 4) /* nothing has arrived */
#define BP_UART_FR_TXFF (1u << 5) /* no room to send */

void bp_port_init(void) {
    bp_arch_mmu_map(BP_GIC, BP_GIC + 0x20000, BP_ARCH_MMU_DEVICE);
    bp_arch_mmu_map(BP_UART, BP_UART + 0x1000, BP_ARCH_MMU_DEVICE);
    bp_arch_port_init();
    bp_arch_gic_init(BP_GIC, BP_GIC + 0x10000);
    BP_UART_LCR = 3u << 5 | 1u << 4;     /* eight data bits, FIFOs */
    BP_UART_CR = 1u << 9 | 1u << 8 | 1u; /* receive, send, on */
    /* QEMU polls the line only after a read. Without this one, the host's first frame waits a
     * second. */
    (void)BP_UART_DR;
}

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
