/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's task, and what the agent asks of a port (bp_port.h). The UART's interrupt puts bytes
 * into a ring and wakes the task, so that nothing is lost while tasks of higher priority run. */

#include "agent.h"

#include "FreeRTOS.h"
#include "task.h"

#include "board.h"
#include "boardprof/bp.h"
#include "boardprof/bp_port.h"
#include "bp_arch_mask.h"
#include "hal.h"

#if BP_CFG_GUARD
#error "the guards of arch/ use the main stack, and tasks have their own: leave BP_CFG_GUARD at 0"
#endif

/* Of the agent itself about 1 KiB, and what the measured functions need. */
enum { STACK_WORDS = 1024 };

/* The host never sends more bytes at once than an MTU, or BP_CFG_RX_BYTES if that is set. */
enum { RING = 1024 };
_Static_assert(RING >= BP_CFG_MTU, "the ring must hold a frame");

static StaticTask_t agent_memory;
static StackType_t agent_stack[STACK_WORDS];
static TaskHandle_t agent;

static uint8_t ring[RING];
static volatile uint32_t head, tail; /* of the next byte to be stored, and to be taken */

static uint32_t boots __attribute__((section(".noinit")));

/// The task ///

static void agent_task(void *unused) {
    (void)unused;
    board_receive();
    bp_serve(); /* bp_init, then bp_poll for ever, and bp_port_idle if there is nothing to do */
}

void agent_create(UBaseType_t priority) {
    boots++;
    agent = xTaskCreateStatic(agent_task, "agent", STACK_WORDS, NULL, priority, agent_stack,
                              &agent_memory);
}

bool agent_receive(void) {
    BaseType_t woken = pdFALSE;
    while (uart_has_byte()) {
        uint8_t byte = uart_get();
        if (head - tail < RING) {
            ring[head % RING] = byte;
            head++;
        }
    }
    vTaskNotifyGiveFromISR(agent, &woken);
    return woken != pdFALSE;
}

/* Until bytes arrive, but at most a tick: a recording sends events without being asked. */
void bp_port_idle(void) {
    (void)ulTaskNotifyTake(pdTRUE, 1);
}

/// The line ///

void bp_port_init(void) {
}

size_t bp_port_read(uint8_t *buffer, size_t capacity) {
    size_t length = 0;
    while (length < capacity && tail != head) {
        buffer[length++] = ring[tail % RING];
        tail++;
    }
    return length;
}

/* Waits for the UART, so that no interrupt of it comes into a window. */
void bp_port_write(const uint8_t *buffer, size_t length) {
    while (length--) {
        uart_put(*buffer++);
    }
}

/// Clocks and resets ///

const bp_port_clock_t bp_port_clock = {
    .source = "timer_now",
    .ticks_hz = TIMER_HZ,
    .coarse_hz = SLOW_TIMER_HZ,
    .ticks_bits = TIMER_BITS,
    .ticks_in_sleep = true,
};

uint64_t bp_port_ticks(void) {
    return timer_now();
}

uint32_t bp_port_coarse(void) {
    return slow_timer_now();
}

uint8_t bp_port_reset_cause(void) {
    return BP_RESET_UNKNOWN;
}

uint32_t bp_port_boot_id(void) {
    return boots * 0x9e3779b1u ^ (uint32_t)timer_now();
}

/// Stack and interrupts ///

#if BP_CFG_STACK
/* The end of the task's stack, not of the one that main and interrupts have. */
uint8_t *bp_port_stack_limit(void) {
    return (uint8_t *)agent_stack;
}

/* Right after a tick, the next one is as far away as it can be. */
void bp_port_stack_quiet(void) {
    vTaskDelay(1);
}
#endif

#if BP_CFG_INTERRUPTS
const bp_port_interrupts_t bp_port_interrupts = {
    .timer_us = 1000000 / configTICK_RATE_HZ,
    .triggers = true,
};
#endif
