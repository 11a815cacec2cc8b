/* SPDX-License-Identifier: Apache-2.0 */
/* A small preemptive kernel: tasks with priorities, and a timer that switches them. */

#ifndef KERNEL_H
#define KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct k_task {
    void *sp; /* while the task does not run */
    struct k_task *next;
    uint32_t wake; /* the tick that ends its sleep */
    uint8_t priority;
    volatile bool sleeps;
} k_task_t;

/* The task that runs. */
extern k_task_t *volatile k_running;

/* Ticks since k_start. */
extern volatile uint32_t k_now;

/* Add a task, before k_start. `body` must not return. Of the tasks that do not sleep, those of the
 * highest priority run in turns, a tick each. 1 is the lowest priority. */
void k_create(k_task_t *task, const char *name, void (*body)(void), uint8_t priority, void *stack,
              size_t bytes);

/* Start the timer, with `period` of its counts between two ticks. The caller becomes the task of
 * priority 0, "idle". */
void k_start(uint32_t period);

/* Let the running task sleep for `ticks`, 1 or more. The task "idle" must not sleep. */
void k_sleep(uint32_t ticks);

/* Let another task of the same priority run, if there is one. */
void k_yield(void);

/* Called at each tick, in its interrupt. The kernel has a weak definition that does nothing. */
void k_on_tick(void);

/// Between kernel.c and the core's file ///

/* Make a stack on which `body` will run; returns its stack pointer. */
void *k_core_stack(void (*body)(void), void *top);

void k_core_start(uint32_t period);

/* Raise the interrupt that calls k_schedule if k_due is set. It has run when this returns, unless
 * interrupts are masked or an interrupt calls it. */
void k_core_interrupt(void);

extern volatile bool k_due;

/* The timer's interrupt and the switch call these. */
void k_tick(void);
void k_schedule(void);

#endif
