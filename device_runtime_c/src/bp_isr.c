/* SPDX-License-Identifier: Apache-2.0 */
/* Leaves interrupts and other tasks out of measured windows. While one of them runs, the window's
 * collectors have a second window, whose counts are then subtracted from the first. */

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"
#include "bp_internal.h"

#if BP_CFG_INTERRUPTS > 1

bp_away_t bp_away;

/* The collectors of the open window, if it leaves interrupts out; NULL: it does not. */
static const bp_active_t *bp_watched;
static bp_state_t *bp_watched_state;
static const void *bp_owner; /* the task that opened it */

static const void *bp_task;   /* the task that runs */
static bool bp_task_is_other; /* whether it is not the owner */
static bool bp_is_interrupt;  /* what is left out is an interrupt, so far without another task */
static uint8_t bp_depth;      /* nested interrupts, plus one while another task runs */
static bp_state_t bp_part;    /* the window of interrupts and other tasks */
static uint32_t bp_left_at;   /* bp_port_ticks when that began */

static uint32_t bp_ticks_since(uint32_t then) {
    uint8_t bits = BP_ROM_GET(bp_port_clock.ticks_bits);
    uint32_t passed = (uint32_t)bp_port_ticks() - then;
    return bits < 32 ? passed & (((uint32_t)1 << bits) - 1u) : passed;
}

static void bp_leave(void) {
    if (bp_watched != NULL) {
        bp_start_all(bp_watched, &bp_part);
        bp_left_at = (uint32_t)bp_port_ticks();
    }
}

/* Counters are read first, so that the time of the code below does not depend on them. */
static void bp_return(void) {
    if (bp_watched == NULL) {
        return;
    }
    uint32_t ticks = bp_ticks_since(bp_left_at);
    bp_stop_all(bp_watched, &bp_part);
    for (const bp_member_t *member = bp_watched->member; member != bp_watched->end; member++) {
        void (*skip)(void *, const void *) = BP_ROM_GET(member->collector->skip);
        if (skip != NULL) {
            skip(bp_watched_state->bytes + member->offset, bp_part.bytes + member->offset);
        }
    }
    bp_away.ticks += ticks;
}

/// Hooks ///

void bp_isr_enter(void) {
    uintptr_t before = bp_port_mask();
    if (bp_depth++ == 0 && !bp_task_is_other) {
        bp_away.interrupts++;
        bp_is_interrupt = true;
        bp_leave();
    }
    bp_port_unmask(before);
}

/* Ignores an exit without its entry: FreeRTOS's portYIELD_FROM_ISR traces the exits of handlers
 * whose entries it does not know. */
void bp_isr_exit(void) {
    uintptr_t before = bp_port_mask();
    if (bp_depth != 0 && --bp_depth == 0) {
        bp_is_interrupt = false;
        if (!bp_task_is_other) {
            bp_return();
        }
    }
    bp_port_unmask(before);
}

void bp_task_switched(const void *task) {
    uintptr_t before = bp_port_mask();
    bool is_other = bp_watched != NULL && task != bp_owner;
    bp_task = task;
    bool is_same = is_other == bp_task_is_other;
    bp_task_is_other = is_other;
    /* Each window of bp_part is counted once, as an interrupt or as a switch: the host subtracts
     * what it takes outside of the hooks. */
    if (is_other && !is_same && (bp_depth == 0 || bp_is_interrupt)) {
        bp_away.switches++;
        bp_away.interrupts -= bp_is_interrupt;
        bp_is_interrupt = false;
    }
    if (!is_same && bp_depth == 0) { /* otherwise the interrupt's hooks do it */
        if (is_other) {
            bp_leave();
        } else {
            bp_return();
        }
    }
    bp_port_unmask(before);
}

__attribute__((weak)) void bp_port_interrupt(void) {
}

/// The window ///

uintptr_t bp_watch_begin(const bp_active_t *active, bp_state_t *state) {
    uintptr_t before = bp_port_mask();
    for (const bp_member_t *member = active->member; member != active->end; member++) {
        if (member->collector == &bp_collector_interrupts) {
            bp_watched = active;
        }
    }
    bp_watched_state = state;
    bp_owner = bp_task;
    return before;
}

void bp_watch_run(uintptr_t before) {
    bp_port_unmask(before);
}

void bp_watch_hold(void) {
    (void)bp_port_mask();
}

void bp_watch_end(uintptr_t before) {
    bp_watched = NULL;
    bp_port_unmask(before);
}

void bp_watch_forget(void) {
    bp_watched = NULL;
    bp_task_is_other = false;
    bp_is_interrupt = false;
    bp_depth = 0;
}

#endif
