/* SPDX-License-Identifier: Apache-2.0 */
/* Zephyr's hooks for a tracing format of the user's own (CONFIG_TRACING_USER), as probes: threads,
 * their names and stacks, interrupts, and the system heap. See docs/rtos.md.
 *
 * Zephyr declares the hooks in a header of its subsys/tracing, which the module does not see. */

#include <zephyr/kernel.h>

#include "boardprof/bp_tasks.h"
#include "boardprof/bp_trace.h"

void sys_trace_thread_create_user(struct k_thread *thread);
void sys_trace_thread_name_set_user(struct k_thread *thread);
void sys_trace_thread_abort_user(struct k_thread *thread);
void sys_trace_thread_switched_in_user(void);
void sys_trace_thread_switched_out_user(void);
void sys_trace_isr_enter_user(void);
void sys_trace_isr_exit_user(void);

/// Threads ///

/* What CONFIG_INIT_STACKS fills stacks with. */
#define BP_ZEPHYR_FILL (IS_ENABLED(CONFIG_INIT_STACKS) ? 0xaa : BP_TASK_NOT_FILLED)

void sys_trace_thread_create_user(struct k_thread *thread) {
#ifdef CONFIG_THREAD_STACK_INFO
    const void *stack = (const void *)thread->stack_info.start;
    size_t bytes = thread->stack_info.size;
#else
    const void *stack = NULL;
    size_t bytes = 0;
#endif
    bp_task_add(thread, k_thread_name_get(thread), stack, bytes, BP_ZEPHYR_FILL);
}

void sys_trace_thread_name_set_user(struct k_thread *thread) {
    bp_task_rename(thread, k_thread_name_get(thread));
}

void sys_trace_thread_abort_user(struct k_thread *thread) {
    bp_task_remove(thread);
}

/* Idle is a thread like the others. */
void sys_trace_thread_switched_in_user(void) {
    BP_TASK_SWITCH(k_current_get());
}

/* The scheduler's own time is that of the thread that it switches from. */
void sys_trace_thread_switched_out_user(void) {
    BP_TRACE_TASK_SWITCHED(NULL);
}

/// Interrupts ///

void sys_trace_isr_enter_user(void) {
    BP_ISR_ENTER_NUMBER(BP_ISR_NUMBER());
}

void sys_trace_isr_exit_user(void) {
    BP_ISR_EXIT_NUMBER();
}

/// The heap of k_malloc ///

#if defined(CONFIG_SYS_HEAP_LISTENER) && CONFIG_HEAP_MEM_POOL_SIZE > 0 && BP_CFG_TRACE

#include <zephyr/init.h>
#include <zephyr/sys/heap_listener.h>

extern struct k_heap _system_heap;

/* Zephyr calls it from within the heap: who has asked for the memory is not known. */
static void bp_zephyr_alloc(uintptr_t heap, void *block, size_t bytes) {
    ARG_UNUSED(heap);
#if BP_CFG_TRACE_HEAP
    bp_heap_taken(block, bytes, bytes, NULL);
#else
    if ((bp_tracing & (uint32_t)BP_TRACE_EVENTS) != 0) {
        bp_trace_alloc(block, bytes, NULL);
    }
#endif
}

static void bp_zephyr_free(uintptr_t heap, void *block, size_t bytes) {
    ARG_UNUSED(heap);
#if BP_CFG_TRACE_HEAP
    bp_heap_given(block, bytes);
#else
    ARG_UNUSED(bytes);
    BP_FREE(block);
#endif
}

static HEAP_LISTENER_ALLOC_DEFINE(bp_zephyr_on_alloc, HEAP_ID_FROM_POINTER(&_system_heap.heap),
                                  bp_zephyr_alloc);
static HEAP_LISTENER_FREE_DEFINE(bp_zephyr_on_free, HEAP_ID_FROM_POINTER(&_system_heap.heap),
                                 bp_zephyr_free);

static int bp_zephyr_init(void) {
    heap_listener_register(&bp_zephyr_on_alloc);
    heap_listener_register(&bp_zephyr_on_free);
    return 0;
}

SYS_INIT(bp_zephyr_init, PRE_KERNEL_1, 0);

#endif
