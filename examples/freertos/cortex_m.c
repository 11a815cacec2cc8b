/* SPDX-License-Identifier: Apache-2.0 */
/* The vectors of a Cortex-M with FreeRTOS, and the receive interrupt of UART 0 (QEMU's MPS2: CMSDK,
 * DDI 0479; interrupt numbers from DAI 0385 and DAI 0386). */

#include "FreeRTOS.h"
#include "task.h"

#include "board.h"
#include "boardprof/bp.h"
#include "boardprof/bp_port.h"

#define REG(address) (*(volatile uint32_t *)(address))
#define UART_CTRL REG(0x40004008u)
#define UART_INTCLEAR REG(0x4000400cu)
#define UART_RX 2u
#define SCB_VTOR REG(0xe000ed08u)
#define SCB_CPACR REG(0xe000ed88u)
#define NVIC_ISER0 REG(0xe000e100u)
#define NVIC_ISPR0 REG(0xe000e200u)
#define NVIC_IPR(number) (*(volatile uint8_t *)(0xe000e400u + (number)))

enum { UART_RX_IRQ = 0, UNUSED_IRQ = 31 };

typedef void handler_t(void);

extern uint32_t stack_top[]; /* link.ld */
handler_t SVC_Handler, PendSV_Handler, SysTick_Handler;

/* Separate, so that a debugger shows its name. */
static __attribute__((noinline)) void stop(void) {
    for (;;) {
    }
}

static void uart_received(void) {
    traceISR_ENTER();
    UART_INTCLEAR = UART_RX;
    portYIELD_FROM_ISR(agent_receive()); /* has traceISR_EXIT */
}

/* The smallest handler with hooks: the agent triggers it to measure what an interrupt costs. */
static void unused(void) {
    traceISR_ENTER();
    traceISR_EXIT();
}

static const struct {
    uint32_t *stack_top;
    handler_t *core[15];
    handler_t *irq[32];
} vectors __attribute__((aligned(256))) = {
    stack_top,
    {stop, stop, stop, stop, stop, stop, stop, stop, stop, stop, SVC_Handler, stop, stop,
     PendSV_Handler, SysTick_Handler},
    {[UART_RX_IRQ] = uart_received, [UNUSED_IRQ] = unused},
};

void board_init(void) {
#if defined(__ARM_FP)
    SCB_CPACR |= 0xfu << 20;
#endif
    SCB_VTOR = (uint32_t)&vectors;
}

void board_receive(void) {
    NVIC_IPR(UART_RX_IRQ) = configMAX_SYSCALL_INTERRUPT_PRIORITY;
    NVIC_IPR(UNUSED_IRQ) = configMAX_SYSCALL_INTERRUPT_PRIORITY;
    NVIC_ISER0 = 1u << UART_RX_IRQ | 1u << UNUSED_IRQ;
    UART_INTCLEAR = UART_RX;
    UART_CTRL |= 8u; /* receive interrupt */
    /* A byte that came before has raised none, and no other can come until it is taken. */
    NVIC_ISPR0 = 1u << UART_RX_IRQ;
}

#if BP_CFG_INTERRUPTS > 1
void bp_port_interrupt(void) {
    NVIC_ISPR0 = 1u << UNUSED_IRQ;
    __asm__ volatile("dsb\n isb" ::: "memory");
}
#endif
