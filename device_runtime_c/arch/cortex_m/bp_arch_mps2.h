/* SPDX-License-Identifier: Apache-2.0 */
/* The port of Arm's MPS2 and MPS3 FPGA boards, as emulated by QEMU: CMSDK UART, FPGAIO counters,
 * CMSDK watchdog. port.c includes it once. Before that, port.c defines whatever differs from the
 * first of these boards. */

#ifndef BP_ARCH_MPS2_H
#define BP_ARCH_MPS2_H

#include "bp_arch.h"
#include "bp_arch_mpu.h"
#include "bp_arch_port.h"
#include "bp_arch_sample_systick.h"

/* Addresses from application notes AN385 (DAI 0385), AN386 and AN500. Everything runs at 25 MHz. */
#ifndef BP_MPS2_HZ
#define BP_MPS2_HZ 25000000u
#define BP_MPS2_UART 0x40004000u
#define BP_MPS2_FPGAIO 0x40028000u
#define BP_MPS2_WATCHDOG 0x40008000u
#define BP_MPS2_WATCHDOG_HZ BP_MPS2_HZ
#define BP_MPS2_ROM 0u
#define BP_MPS2_ROM_BYTES 0x400000u
#endif

#define BP_MPS2_REG(base, offset) (*(volatile uint32_t *)((base) + (offset)))

/* Cortex-M System Design Kit (DDI 0479), APB UART. */
#define BP_UART_DATA BP_MPS2_REG(BP_MPS2_UART, 0x00)
#define BP_UART_STATE BP_MPS2_REG(BP_MPS2_UART, 0x04)
#define BP_UART_CTRL BP_MPS2_REG(BP_MPS2_UART, 0x08)
#define BP_UART_BAUDDIV BP_MPS2_REG(BP_MPS2_UART, 0x10)
#define BP_UART_TX 1u /* in STATE: the buffer is full; in CTRL: enable */
#define BP_UART_RX 2u /* the same for the receiver */

/* DAI 0385, FPGA system control and I/O. */
#define BP_FPGAIO_CLK100HZ BP_MPS2_REG(BP_MPS2_FPGAIO, 0x14)
#define BP_FPGAIO_COUNTER BP_MPS2_REG(BP_MPS2_FPGAIO, 0x18)
#define BP_FPGAIO_PRESCALE BP_MPS2_REG(BP_MPS2_FPGAIO, 0x1c) /* COUNTER's, 0 after a reset */
#define BP_FPGAIO_PSCNTR BP_MPS2_REG(BP_MPS2_FPGAIO, 0x20)   /* counts it */

/* Also from DDI 0479: APB watchdog. Its interrupt is NMI on these boards. It counts down. */
#define BP_WDOG_LOAD BP_MPS2_REG(BP_MPS2_WATCHDOG, 0x00)
#define BP_WDOG_VALUE BP_MPS2_REG(BP_MPS2_WATCHDOG, 0x04)
#define BP_WDOG_CONTROL BP_MPS2_REG(BP_MPS2_WATCHDOG, 0x08)
#define BP_WDOG_INTCLR BP_MPS2_REG(BP_MPS2_WATCHDOG, 0x0c)
/* In CONTROL: count, and raise an interrupt at 0. Without RESEN no reset follows. */
#define BP_WDOG_INTEN 1u

/* A second clock that counts up, and how many of its ticks are as long as how many of COUNTER's. */
#ifndef BP_MPS2_SECOND
#define BP_MPS2_SECOND (0u - BP_WDOG_VALUE)
#define BP_MPS2_SECOND_TICKS 1u
#define BP_MPS2_COUNTER_TICKS 1u
#endif

/// The line to the host ///

static void bp_uart_init(void) {
    BP_UART_BAUDDIV = 16; /* the smallest value allowed; QEMU sends at once anyway */
    BP_UART_CTRL = BP_UART_TX | BP_UART_RX;
    /* QEMU polls the line only after a read. Without this one, the host's first frame waits a
     * second. */
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

/// Clocks ///

/* COUNTER wraps every 172 s at 25 MHz. The CMSDK timers are not used: whenever the core sleeps,
 * QEMU's clock jumps to the end of the next running timer. An up-counter has no end. */
static const char bp_clock_source[] BP_ROM = "FPGAIO COUNTER";

const bp_port_clock_t bp_port_clock BP_ROM = {
    .source = bp_clock_source,
    .ticks_hz = BP_MPS2_HZ,
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

/// Guarded calls ///

#if BP_CFG_GUARD

/* A function can write these counters, whatever address it computes. So each guarded call compares
 * how far COUNTER, CLK100HZ and the second clock went. */
static uint32_t bp_apart, bp_counter, bp_coarse; /* when the call began */
static bool bp_is_intact = true;

/* Not inlined, and not interrupted: the two readings are always equally far apart. */
__attribute__((noinline)) static uint32_t bp_read_apart(void) {
    uintptr_t before = bp_arch_lock_all();
    uint32_t counter = BP_FPGAIO_COUNTER, second = BP_MPS2_SECOND;
    bp_arch_unlock_all(before);
    return counter * BP_MPS2_SECOND_TICKS - second * BP_MPS2_COUNTER_TICKS;
}

static void bp_read_clocks(void) {
    bp_apart = bp_read_apart();
    bp_counter = BP_FPGAIO_COUNTER;
    bp_coarse = BP_FPGAIO_CLK100HZ;
}

/* Each reading is up to a tick late. COUNTER may have wrapped; CLK100HZ cannot be beyond the limit.
 */
static void bp_compare_clocks(uint32_t timeout_ms) {
    uint32_t most = BP_MPS2_SECOND_TICKS + BP_MPS2_COUNTER_TICKS, hundredth = BP_MPS2_HZ / 100u;
    uint32_t coarse = BP_FPGAIO_CLK100HZ - bp_coarse;
    uint32_t behind = coarse * hundredth - (BP_FPGAIO_COUNTER - bp_counter);
    if (bp_read_apart() - bp_apart + most > 2 * most || coarse > timeout_ms / 10 + 2 ||
        behind + 2 * hundredth > 4 * hundredth) {
        bp_is_intact = false;
    }
}

bool bp_port_clock_intact(void) {
    bool intact = bp_is_intact;
    bp_is_intact = true;
    if ((BP_FPGAIO_PRESCALE | BP_FPGAIO_PSCNTR) != 0) {
        BP_FPGAIO_PRESCALE = 0;
        BP_FPGAIO_PSCNTR = 0;
    }
    return intact;
}

static uint32_t bp_rounds; /* of 2^32 counts (172 s) each, left until the limit */

/* Only with a limit of 172 s or more does an interrupt come before the limit is over. */
static bool bp_is_over(void) {
    BP_WDOG_INTCLR = 1;
    if (bp_rounds != 0) {
        BP_WDOG_LOAD = UINT32_MAX;
        bp_apart = bp_read_apart(); /* the second clock may be this watchdog */
    }
    return bp_rounds-- == 0;
}

static void bp_timer_start(uint32_t timeout_ms) {
    uint64_t limit = (uint64_t)timeout_ms * (BP_MPS2_WATCHDOG_HZ / 1000u);
    if (timeout_ms == 0) {
        return; /* it is already off */
    }
    bp_rounds = (uint32_t)(limit >> 32);
    BP_WDOG_INTCLR = 1; /* QEMU's keeps counting without INTEN, and remembers that it was at 0 */
    BP_WDOG_LOAD = (uint32_t)limit | 1u; /* 0 would mean no time at all */
    BP_WDOG_CONTROL = BP_WDOG_INTEN;
}

static void bp_timer_stop(void) {
    BP_WDOG_CONTROL = 0;
    BP_WDOG_INTCLR = 1;
    BP_WDOG_LOAD = UINT32_MAX; /* gives QEMU as few events as possible */
}

void bp_port_guard(void (*body)(void *context), void *context, uint32_t timeout_ms,
                   bp_fault_t *fault) {
    static const bp_arch_guard_t board = {BP_ARCH_PLACES, .is_over = bp_is_over};
    bp_timer_start(timeout_ms);
    bp_read_clocks();
    bp_arch_guard(&board, body, context, fault);
    if (timeout_ms != 0) { /* else the watchdog may not run */
        bp_compare_clocks(timeout_ms);
    }
    bp_timer_stop();
}

#endif

#if BP_CFG_INTERRUPTS
/* The watchdog is NMI, which cannot be masked. */
const bp_port_interrupts_t bp_port_interrupts BP_ROM = {.masks_guard = false};
#endif

/* Without guarded calls nobody could report an access to denied memory. */
void bp_port_init(void) {
#ifdef BP_MPS2_SECOND_ENABLE
    BP_MPS2_SECOND_ENABLE = 1;
#endif
#if BP_CFG_GUARD
    bp_arch_protect(BP_MPS2_ROM, BP_MPS2_ROM_BYTES);
#endif
    bp_uart_init();
}

#endif
