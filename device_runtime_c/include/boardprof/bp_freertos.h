/* SPDX-License-Identifier: Apache-2.0 */
/* FreeRTOS's trace macros, as probes: tasks, their names and stacks, the tick, interrupts, and the
 * heap. Include this at the end of FreeRTOSConfig.h, and compile the kernel with the agent's
 * options. See docs/rtos.md.
 *
 * Context: FreeRTOS's kernel includes it. It defines nothing that your files need. */

#ifndef BOARDPROF_BP_FREERTOS_H
#define BOARDPROF_BP_FREERTOS_H

#ifndef __ASSEMBLER__

#include "boardprof/bp_tasks.h"
#include "boardprof/bp_trace.h"

/* Tasks. FreeRTOS knows where a stack ends only with configRECORD_STACK_HIGH_ADDRESS. It fills a
 * stack only with an option that lets it look for the fill, such as
 * INCLUDE_uxTaskGetStackHighWaterMark. */
#if defined(configRECORD_STACK_HIGH_ADDRESS) && configRECORD_STACK_HIGH_ADDRESS == 1
#define BP_FREERTOS_STACK_BYTES(tcb) \
    ((size_t)((const char *)((tcb)->pxEndOfStack + 1) - (const char *)(tcb)->pxStack))
#else
#define BP_FREERTOS_STACK_BYTES(tcb) ((size_t)0)
#endif

#define traceTASK_CREATE(tcb)                                                           \
    bp_task_add((tcb), (tcb)->pcTaskName, (tcb)->pxStack, BP_FREERTOS_STACK_BYTES(tcb), \
                tskSET_NEW_STACKS_TO_KNOWN_VALUE != 0 ? (int)tskSTACK_FILL_BYTE         \
                                                      : BP_TASK_NOT_FILLED)
#define traceTASK_DELETE(tcb) bp_task_remove(tcb)

/* The scheduler's own time is that of the task that it switches from. */
#define traceTASK_SWITCHED_OUT() BP_TRACE_TASK_SWITCHED(NULL)
#define traceTASK_SWITCHED_IN() BP_TASK_SWITCH(pxCurrentTCB)

/* Interrupts, by their numbers. From FreeRTOS 11 on, the ports for Cortex-M trace their tick and
 * portYIELD_FROM_ISR with these. */
#define traceISR_ENTER() BP_ISR_ENTER_NUMBER(BP_ISR_NUMBER())
#define traceISR_EXIT() BP_ISR_EXIT_NUMBER()
#define traceISR_EXIT_TO_SCHEDULER() BP_ISR_EXIT_NUMBER()

/* The heap. The size is that of the block with FreeRTOS's header, from FreeRTOS 11 on. pvPortMalloc
 * contains the macro, so that its caller is known. heap_3 calls malloc: with BP_CFG_TRACE_HEAP that
 * has probes of its own, so define BP_FREERTOS_HEAP_3. */
#if BP_CFG_TRACE_HEAP && defined(BP_FREERTOS_HEAP_3)
#define traceMALLOC(address, size) ((void)(address), (void)(size))
#define traceFREE(address, size) ((void)(address), (void)(size))
#elif BP_CFG_TRACE_HEAP

/* Bytes in use. heap_5 gets its regions at run time: define this for it. */
#ifndef BP_FREERTOS_HEAP_USED
#define BP_FREERTOS_HEAP_USED() ((size_t)configTOTAL_HEAP_SIZE - xPortGetFreeHeapSize())
#endif

/* By how many bytes the heap has grown since the last time. Before FreeRTOS 11, the sizes of
 * traceMALLOC and traceFREE may differ for the same block. */
static inline size_t bp_freertos_growth(size_t used) {
    static size_t before;
    size_t growth = used - before;
    before = used;
    return growth;
}

#define traceMALLOC(address, size)                                                \
    bp_heap_taken((address), (size), bp_freertos_growth(BP_FREERTOS_HEAP_USED()), \
                  __builtin_return_address(0))
#define traceFREE(address, size) \
    bp_heap_given((address),     \
                  (size_t)0 - ((void)(size), bp_freertos_growth(BP_FREERTOS_HEAP_USED())))

#else
#define traceMALLOC(address, size) BP_ALLOC((address), (size))
#define traceFREE(address, size) BP_FREE(address)
#endif

#endif

#endif
