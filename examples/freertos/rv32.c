/* SPDX-License-Identifier: Apache-2.0 */
/* The trap vector of a RISC-V core with FreeRTOS, and the receive interrupt of QEMU's virt machine:
 * an NS16550A at input 10 of the PLIC. The agent's own interrupt is the CLINT's software interrupt,
 * which FreeRTOS does not use. */

#include "FreeRTOS.h"
#include "task.h"

#include "board.h"
#include "boardprof/bp.h"
#include "boardprof/bp_port.h"

#define REG(address) (*(volatile uint32_t *)(address))
#define UART_IER (*(volatile uint8_t *)0x10000001u)
#define PLIC_PRIORITY(source) REG(0x0c000000u + 4u * (source))
#define PLIC_ENABLE REG(0x0c002000u)
#define PLIC_THRESHOLD REG(0x0c200000u)
#define PLIC_CLAIM REG(0x0c200004u)
#define MSIP REG(0x02000000u)

enum { UART_SOURCE = 10, MIE_SOFTWARE = 8, CAUSE_SOFTWARE = 3, CAUSE_EXTERNAL = 11 };

void freertos_risc_v_trap_handler(void);
void freertos_risc_v_application_interrupt_handler(uint32_t mcause);

void board_init(void) {
    __asm__ volatile("csrw mtvec, %0" : : "r"(freertos_risc_v_trap_handler) : "memory");
}

void board_receive(void) {
    PLIC_PRIORITY(UART_SOURCE) = 1;
    PLIC_THRESHOLD = 0;
    PLIC_ENABLE = 1u << UART_SOURCE;
    UART_IER = 1; /* received data */
#if BP_CFG_INTERRUPTS > 1
    __asm__ volatile("csrs mie, %0" : : "r"(MIE_SOFTWARE) : "memory");
#endif
}

/* FreeRTOS calls it for all interrupts but the tick. */
void freertos_risc_v_application_interrupt_handler(uint32_t mcause) {
    bool yield = false;
    traceISR_ENTER();
    if ((mcause & 0xffu) == CAUSE_SOFTWARE) {
        MSIP = 0;
    } else if ((mcause & 0xffu) == CAUSE_EXTERNAL) {
        uint32_t source = PLIC_CLAIM;
        yield = agent_receive();
        PLIC_CLAIM = source;
    }
    traceISR_EXIT();
    if (yield) {
        vTaskSwitchContext();
    }
}

#if BP_CFG_INTERRUPTS > 1
void bp_port_interrupt(void) {
    MSIP = 1;
    (void)MSIP; /* it is written before this is read */
}
#endif
