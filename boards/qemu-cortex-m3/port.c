/* SPDX-License-Identifier: Apache-2.0 */
/* QEMU's "mps2-an385" machine: Cortex-M3, CMSDK UART, FPGAIO counters; all of it at 25 MHz. */

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"
#include "bp_arch_guard.h"

#define BP_HZ 25000000u

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

/* The same manual, APB watchdog, whose interrupt is NMI in DAI 0385. It counts down. */
#define BP_WDOG_LOAD (*(volatile uint32_t *)0x40008000u)
#define BP_WDOG_CONTROL (*(volatile uint32_t *)0x40008008u)
#define BP_WDOG_INTCLR (*(volatile uint32_t *)0x4000800cu)
/* In CONTROL: count, and interrupt at 0; without RESEN, no reset follows. */
#define BP_WDOG_INTEN 1u

static uint32_t bp_boots __attribute__((section(".noinit")));

extern const char bp_text_start[], bp_text_end[], bp_stack_guard_start[], bp_stack_guard_end[];

#if BP_CFG_STACK

/* All above what is denied is stack (link.ld). */
uint8_t *bp_port_stack_limit(void) {
    return (uint8_t *)(uintptr_t)bp_stack_guard_end;
}

#endif

#if BP_CFG_GUARD

/* Code cannot be written, and the first page, where NULL points, not even be read; below the stack
 * there is nothing. */
static void bp_guard_init(void) {
    bp_arch_mpu_region(0, 0, 22, BP_ARCH_MPU_READ_ONLY);
    bp_arch_mpu_region(1, 0, 12, BP_ARCH_MPU_NOTHING);
    bp_arch_mpu_region(2, (uintptr_t)bp_stack_guard_start, 16, BP_ARCH_MPU_NOTHING);
    bp_arch_mpu_enable();
}

static uint32_t bp_rounds; /* 2^32 ticks, 172 s, each: how many the limit still has */

/* A limit of 172 s or more is the one case where an interrupt comes before it is over. */
static bool bp_is_over(void) {
    BP_WDOG_INTCLR = 1;
    if (bp_rounds != 0) {
        BP_WDOG_LOAD = UINT32_MAX;
    }
    return bp_rounds-- == 0;
}

static void bp_timer_start(uint32_t timeout_ms) {
    uint64_t limit = (uint64_t)timeout_ms * (BP_HZ / 1000u);
    if (timeout_ms == 0) {
        return; /* it is off already */
    }
    bp_rounds = (uint32_t)(limit >> 32);
    BP_WDOG_INTCLR = 1; /* QEMU's goes on without INTEN too, and remembers that it was at 0 */
    BP_WDOG_LOAD = (uint32_t)limit | 1u; /* 0 would be no time at all */
    BP_WDOG_CONTROL = BP_WDOG_INTEN;
}

static void bp_timer_stop(void) {
    BP_WDOG_CONTROL = 0;
    BP_WDOG_INTCLR = 1;
    BP_WDOG_LOAD = UINT32_MAX; /* so that QEMU has as little as can be to do for it */
}

void bp_port_guard(void (*body)(void *context), void *context, uint32_t timeout_ms,
                   bp_fault_t *fault) {
    static const bp_arch_guard_t board = {
        .text_start = bp_text_start,
        .text_end = bp_text_end,
        .stack_guard_start = bp_stack_guard_start,
        .stack_guard_end = bp_stack_guard_end,
        .is_over = bp_is_over,
    };
    bp_timer_start(timeout_ms);
    bp_arch_guard(&board, body, context, fault);
    bp_timer_stop();
}

#else

static void bp_guard_init(void) {
}

#endif

void bp_port_init(void) {
    bp_boots++;
    bp_guard_init();
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
    .ticks_hz = BP_HZ,
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
