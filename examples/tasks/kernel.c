/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the kernel that is the same for all cores. */

#include "kernel.h"

#include "boardprof/bp_tasks.h"
#include "boardprof/bp_trace.h"

k_task_t *volatile k_running;
volatile uint32_t k_now;
volatile bool k_due;

static k_task_t k_idle = {.next = &k_idle};

__attribute__((weak)) void k_on_tick(void) {
}

void k_create(k_task_t *task, const char *name, void (*body)(void), uint8_t priority, void *stack,
              size_t bytes) {
    __builtin_memset(stack, 0xa5, bytes);
    task->sp = k_core_stack(body, (uint8_t *)stack + bytes);
    task->priority = priority;
    task->next = k_idle.next;
    k_idle.next = task;
    bp_task_add(task, name, stack, bytes, 0xa5);
}

void k_start(uint32_t period) {
    k_running = &k_idle;
    bp_task_add(&k_idle, "idle", NULL, 0, BP_TASK_NOT_FILLED);
    BP_TASK_SWITCH(&k_idle);
    k_core_start(period);
    k_yield();
}

void k_sleep(uint32_t ticks) {
    k_task_t *task = k_running;
    task->wake = k_now + ticks;
    task->sleeps = true;
    while (task->sleeps) {
        k_yield();
    }
}

void k_yield(void) {
    k_due = true;
    k_core_interrupt();
}

void k_tick(void) {
    k_now++;
    k_due = true;
    k_task_t *task = &k_idle;
    do {
        if (task->sleeps && task->wake == k_now) {
            task->sleeps = false;
        }
        task = task->next;
    } while (task != &k_idle);
    k_on_tick();
}

/* Among equals the next one in the list runs, so that each gets its turn. */
void k_schedule(void) {
    if (!k_due) {
        return;
    }
    k_due = false;
    k_task_t *last = k_running;
    k_task_t *best = NULL;
    k_task_t *task = last;
    do {
        task = task->next;
        if (!task->sleeps && (best == NULL || task->priority > best->priority)) {
            best = task;
        }
    } while (task != last);
    if (best != last) {
        BP_TASK_SWITCH(best);
        k_running = best;
    }
}
