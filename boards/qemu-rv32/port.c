/* SPDX-License-Identifier: Apache-2.0 */
/* QEMU's RISC-V "virt" machine: NS16550A, CLINT and PLIC. */

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"
#include "bp_arch.h"
#include "bp_arch_guard.h"

/* PC16550D data sheet (TI, SNLS378), 8: registers, one byte apart. */
#define BP_UART_DATA (*(volatile uint8_t *)0x10000000u) /* RBR when read, THR when written */
#define BP_UART_FCR (*(volatile uint8_t *)0x10000002u)
#define BP_UART_LCR (*(volatile uint8_t *)0x10000003u)
#define BP_UART_LSR (*(volatile uint8_t *)0x10000005u)
#define BP_UART_LSR_DR 0x01u   /* data ready */
#define BP_UART_LSR_THRE 0x20u /* transmitter holding register empty */

/* CLINT at 0x02000000, the UART at 0x10000000: QEMU, hw/riscv/virt.c, virt_memmap. Within the CLINT
 * mtime stands at 0xbff8 and hart 0's mtimecmp at 0x4000 (SiFive FU540-C000 manual, chapter 9;
 * RISC-V ACLINT specification). */
#define BP_MTIME 0x0200bff8u
#define BP_MTIMECMP 0x02004000u
#define BP_MTIME_HZ 10000000u

static uint32_t bp_boots __attribute__((section(".noinit")));

extern const char bp_text_start[], bp_text_end[], bp_stack_guard_start[], bp_stack_guard_end[];

#if BP_CFG_STACK

/* All above what is denied is stack (link.ld). */
uint8_t *bp_port_stack_limit(void) {
    return (uint8_t *)(uintptr_t)bp_stack_guard_end;
}

#endif

#if BP_CFG_GUARD

/* The stack's end, and the first page: there is nothing at NULL here, and nothing shall be. */
static void bp_guard_init(void) {
    bp_arch_deny(bp_arch_region((uintptr_t)bp_stack_guard_start, 65536), bp_arch_region(0, 4096));
}

void bp_port_guard(void (*body)(void *context), void *context, uint32_t timeout_ms,
                   bp_fault_t *fault) {
    static const bp_arch_guard_t board = {
        .text_start = bp_text_start,
        .text_end = bp_text_end,
        .stack_guard_start = bp_stack_guard_start,
        .stack_guard_end = bp_stack_guard_end,
        .mtime = BP_MTIME,
        .mtimecmp = BP_MTIMECMP,
    };
    uint64_t limit = (uint64_t)timeout_ms * (BP_MTIME_HZ / 1000);
    bp_arch_guard(&board, body, context, limit, fault);
}

#else

static void bp_guard_init(void) {
}

#endif

void bp_port_init(void) {
    bp_boots++;
    bp_guard_init();
    BP_UART_LCR = 0x03; /* eight data bits */
    /* FIFOs on and cleared, receive trigger at 14 bytes: QEMU takes as many from the host at once.
     * Clearing may lose the one byte that came before; a frame's first byte is a delimiter. */
    BP_UART_FCR = 0xc7;
    /* Only a read makes QEMU look at the line again; else the host's first frame waits a second. */
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

/* No wfi: while the core sleeps, QEMU moves its clock on to the next timer, and under -icount
 * minstret follows that clock, so that it would count instructions that nobody executed. */
void bp_port_idle(void) {
}

static const char bp_clock_source[] BP_ROM = "mtime";

const bp_port_clock_t bp_port_clock BP_ROM = {
    .source = bp_clock_source,
    .ticks_hz = BP_MTIME_HZ,
    .ticks_bits = 64,
    .ticks_in_sleep = true,
};

uint64_t bp_port_ticks(void) {
    return bp_arch_mtime(BP_MTIME);
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
