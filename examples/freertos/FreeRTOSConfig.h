/* SPDX-License-Identifier: Apache-2.0 */
/* FreeRTOS 11 for this firmware. Everything is allocated statically. */

#ifndef FREERTOS_CONFIG_H
#define FREERTOS_CONFIG_H

#define configTICK_RATE_HZ 1000
#define configTICK_TYPE_WIDTH_IN_BITS TICK_TYPE_WIDTH_32_BITS
#define configUSE_PREEMPTION 1
#define configUSE_IDLE_HOOK 0
#define configUSE_TICK_HOOK 0
#define configMAX_PRIORITIES 5
#define configMINIMAL_STACK_SIZE 128
#define configSUPPORT_STATIC_ALLOCATION 1
#define configSUPPORT_DYNAMIC_ALLOCATION 0
#define configKERNEL_PROVIDED_STATIC_MEMORY 1
#define configUSE_TIMERS 0
#define configUSE_MUTEXES 0
#define configUSE_CO_ROUTINES 0
#define configCHECK_FOR_STACK_OVERFLOW 0
#define INCLUDE_vTaskDelay 1

#if defined(__riscv)
#define configMTIME_BASE_ADDRESS 0x0200bff8u
#define configMTIMECMP_BASE_ADDRESS 0x02004000u
#define configCPU_CLOCK_HZ 10000000u /* of mtime */
#define configISR_STACK_SIZE_WORDS 512
#else
#define configCPU_CLOCK_HZ 25000000u
#define configKERNEL_INTERRUPT_PRIORITY 0xffu
/* Handlers that call FreeRTOS, such as the UART's, have this priority or a lower one, which is a
 * larger number. */
#define configMAX_SYSCALL_INTERRUPT_PRIORITY 0x80u
#define vPortSVCHandler SVC_Handler
#define xPortPendSVHandler PendSV_Handler
#define xPortSysTickHandler SysTick_Handler
#endif

/* The agent's hooks: tasks, their names and stacks, interrupts. */
#define configRECORD_STACK_HIGH_ADDRESS 1
#define INCLUDE_uxTaskGetStackHighWaterMark 1
#include "boardprof/bp_freertos.h"

#endif
