/* SPDX-License-Identifier: Apache-2.0 */
/* A table of the operating system's tasks: their names, and how much of their stacks they use. The
 * host asks for it, so tasks that began before recording have names, too. bp_freertos.h and
 * zephyr/bp_zephyr.c fill it in; for another system, call these functions yourself.
 *
 * Without BP_CFG_TASKS they compile to nothing. */

#ifndef BOARDPROF_BP_TASKS_H
#define BOARDPROF_BP_TASKS_H

#include <stddef.h>
#include <stdint.h>

#include "boardprof/bp_config.h"

/* Instead of a byte that stacks are filled with. */
#define BP_TASK_NOT_FILLED (-1)

#if BP_CFG_TASKS

#ifdef __cplusplus
extern "C" {
#endif

/* Add a task, or replace it. `task` is the pointer that BP_TASK_SWITCH gets. The first 15
 * characters of `name` are copied. `stack` is the stack's lowest address, and `bytes` its size;
 * NULL and 0 if they are not known. If the whole stack was filled with one byte before the task
 * ran, that is `fill`; else it is BP_TASK_NOT_FILLED. Ignored if the table is full. Context:
 * anywhere. */
void bp_task_add(const void *task, const char *name, const void *stack, size_t bytes, int fill);

/* Give a task in the table another name.  Context: anywhere. */
void bp_task_rename(const void *task, const char *name);

/* A task ends. Its name stays until another one needs the place.  Context: anywhere. */
void bp_task_remove(const void *task);

#ifdef __cplusplus
}
#endif

#else

#define bp_task_add(task, name, stack, bytes, fill) \
    ((void)(task), (void)(name), (void)(stack), (void)(bytes), (void)(fill))
#define bp_task_rename(task, name) ((void)(task), (void)(name))
#define bp_task_remove(task) ((void)(task))

#endif

#endif
