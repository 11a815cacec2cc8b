/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent asks of a port (bp_port.h), with Zephyr's drivers. The UART's interrupt puts bytes
 * into a ring and wakes the agent's thread, so that nothing is lost while other threads run. */

#include "boardprof/bp_port.h"

#include <zephyr/device.h>
#include <zephyr/drivers/uart.h>
#include <zephyr/init.h>
#include <zephyr/kernel.h>
#include <zephyr/sys/ring_buffer.h>

/* The host never sends more bytes at once than an MTU, or BP_CFG_RX_BYTES if that is set. */
RING_BUF_DECLARE(received, 2 * BP_CFG_MTU);
static K_SEM_DEFINE(arrived, 0, 1);
static const struct device *const line = DEVICE_DT_GET(DT_CHOSEN(zephyr_console));

static uint32_t boots __noinit;

/// The line ///

static void on_uart(const struct device *uart, void *context) {
    uint8_t bytes[16];
    int length;
    ARG_UNUSED(context);
    while (uart_irq_update(uart) && uart_irq_rx_ready(uart) &&
           (length = uart_fifo_read(uart, bytes, sizeof bytes)) > 0) {
        (void)ring_buf_put(&received, bytes, (uint32_t)length);
        k_sem_give(&arrived);
    }
}

static int port_init(void) {
    uint8_t byte;
    boots++;
    uart_irq_callback_user_data_set(line, on_uart, NULL);
    uart_irq_rx_enable(line);
    /* A byte that came before raises no interrupt on some UARTs, and no other comes until it is
     * taken. */
    unsigned int key = irq_lock();
    while (uart_poll_in(line, &byte) == 0) {
        (void)ring_buf_put(&received, &byte, 1);
    }
    irq_unlock(key);
    return 0;
}

SYS_INIT(port_init, APPLICATION, 0);

void bp_port_init(void) {
}

size_t bp_port_read(uint8_t *buffer, size_t capacity) {
    return ring_buf_get(&received, buffer, (uint32_t)capacity);
}

/* Waits for the UART, so that no interrupt of it comes into a window. */
void bp_port_write(const uint8_t *buffer, size_t length) {
    while (length--) {
        uart_poll_out(line, *buffer++);
    }
}

/* Until bytes arrive, but at most a tick: a recording sends events without being asked. */
void bp_port_idle(void) {
    (void)k_sem_take(&arrived, K_TICKS(1));
}

/// Clocks and resets ///

const bp_port_clock_t bp_port_clock = {
    .source = "k_cycle_get_32",
    .ticks_hz = CONFIG_SYS_CLOCK_HW_CYCLES_PER_SEC,
    .coarse_hz = 1000,
    .ticks_bits = 32,
    .ticks_in_sleep = true, /* not on every board */
};

uint64_t bp_port_ticks(void) {
    return k_cycle_get_32();
}

uint32_t bp_port_coarse(void) {
    return k_uptime_get_32();
}

/* CONFIG_HWINFO's hwinfo_get_reset_cause knows more, on some boards. */
uint8_t bp_port_reset_cause(void) {
    return BP_RESET_UNKNOWN;
}

uint32_t bp_port_boot_id(void) {
    return boots * 0x9e3779b1u ^ k_cycle_get_32();
}

/// Stack and interrupts ///

#if BP_CFG_STACK
uint8_t *bp_port_stack_limit(void) {
    return (uint8_t *)k_current_get()->stack_info.start;
}

/* Right after a tick, the next one is as far away as it can be. */
void bp_port_stack_quiet(void) {
    k_sleep(K_TICKS(1));
}
#endif

#if BP_CFG_INTERRUPTS
const bp_port_interrupts_t bp_port_interrupts = {
    .timer_us = 1000000 / CONFIG_SYS_CLOCK_TICKS_PER_SEC,
};

uintptr_t bp_port_mask(void) {
    return irq_lock();
}

void bp_port_unmask(uintptr_t before) {
    irq_unlock((unsigned int)before);
}
#endif
