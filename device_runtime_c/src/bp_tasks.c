/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the operating system's tasks, and bp.trace_tasks. SPEC.md 5.12. */

#include "boardprof/bp.h"
#include "boardprof/bp_tasks.h"
#include "bp_internal.h"

#if BP_CFG_TASKS

#include "bp_arch.h"

enum { BP_TASK_NAME = 15 };

typedef struct {
    const void *task; /* NULL: the place is free, and was never used */
    const uint8_t *stack;
    size_t bytes;
    int16_t fill;
    bool ended;
    char name[BP_TASK_NAME + 1];
} bp_task_entry_t;

static bp_task_entry_t bp_tasks[BP_CFG_TASKS];

const void *volatile bp_task_running;

/* The task's place, or else one that is free, or else one whose task has ended; NULL if there is no
 * such place. */
static bp_task_entry_t *bp_task_place(const void *task) {
    bp_task_entry_t *place = NULL;
    for (uint_fast8_t i = BP_CFG_TASKS; i-- != 0;) {
        bp_task_entry_t *entry = &bp_tasks[i];
        if (entry->task == task) {
            return entry;
        }
        if (entry->task == NULL || (entry->ended && (place == NULL || place->task != NULL))) {
            place = entry;
        }
    }
    return place;
}

static void bp_task_set_name(bp_task_entry_t *entry, const char *name) {
    uint_fast8_t i = 0;
    for (; name != NULL && i < BP_TASK_NAME && name[i] != '\0'; i++) {
        entry->name[i] = name[i];
    }
    entry->name[i] = '\0';
}

void bp_task_add(const void *task, const char *name, const void *stack, size_t bytes, int fill) {
    uintptr_t before = bp_arch_lock_always();
    bp_task_entry_t *entry = bp_task_place(task);
    if (entry != NULL) {
        *entry =
            (bp_task_entry_t){.task = task, .stack = stack, .bytes = bytes, .fill = (int16_t)fill};
        bp_task_set_name(entry, name);
    }
    bp_arch_unlock(before);
}

void bp_task_rename(const void *task, const char *name) {
    uintptr_t before = bp_arch_lock_always();
    bp_task_entry_t *entry = bp_task_place(task);
    if (entry != NULL && entry->task == task) {
        bp_task_set_name(entry, name);
    }
    bp_arch_unlock(before);
}

/* Its stack may become something else. */
void bp_task_remove(const void *task) {
    uintptr_t before = bp_arch_lock_always();
    bp_task_entry_t *entry = bp_task_place(task);
    if (entry != NULL && entry->task == task) {
        entry->ended = true;
        entry->stack = NULL;
    }
    bp_arch_unlock(before);
}

void bp_trace_task(void) {
    uintptr_t before = bp_arch_lock_always();
    const void *task = bp_task_running;
    /* With several cores it is not known which one runs it. */
    if (task != NULL && BP_CFG_TRACE_CORES == 1) {
        bp_trace_address(BP_TRACE_TASK, (uintptr_t)task);
    }
    bp_arch_unlock(before);
}

/* Stacks grow down, so the bytes that were never used are the lowest ones. The scan may take long,
 * so interrupts are on, and the task may end meanwhile. Returns whether it has not. */
static bool bp_task_used(const bp_task_entry_t *entry, bp_task_entry_t seen, size_t *used) {
    size_t unused = 0;
    while (unused < seen.bytes && seen.stack[unused] == (uint8_t)seen.fill) {
        unused++;
    }
    *used = seen.bytes - unused;
    uintptr_t before = bp_arch_lock_always();
    bool is_same = entry->task == seen.task && entry->stack == seen.stack;
    bp_arch_unlock(before);
    return is_same;
}

/* [index] -> [task, name, stack, used]; nil after the last one */
int bp_trace_tasks(bp_call_t *call) {
    uint32_t index = bp_arg_u32(call);
    if (bp_arg_end(call) != 0) {
        return call->err;
    }
    if (index >= BP_CFG_TASKS || bp_tasks[index].task == NULL) {
        bp_ret_nil(call);
        return call->err;
    }
    const bp_task_entry_t *entry = &bp_tasks[index];
    uintptr_t before = bp_arch_lock_always();
    bp_task_entry_t seen = *entry;
    bp_arch_unlock(before);
    size_t length = 0;
    while (seen.name[length] != '\0') {
        length++;
    }
    bp_ret_array(call, 4);
    bp_ret_u64(call, (uintptr_t)seen.task);
    bp_ret_bytes(call, seen.name, length);
    if (seen.bytes != 0) {
        bp_ret_uint(call, (uint32_t)seen.bytes);
    } else {
        bp_ret_nil(call);
    }
    size_t used;
    if (seen.stack != NULL && seen.fill >= 0 && bp_task_used(entry, seen, &used)) {
        bp_ret_uint(call, (uint32_t)used);
    } else {
        bp_ret_nil(call);
    }
    return call->err;
}

#endif
