/* SPDX-License-Identifier: Apache-2.0 */

#define _GNU_SOURCE /* CLOCK_MONOTONIC */

#include "bp_perf_groups.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "boardprof/bp_wire.h"

/* How long to give a group the chance to run. The kernel switches groups once a tick, at most 10
 * ms. */
#define BP_PERF_TURN_NS 25000000

static int bp_perf_leader(const bp_perf_groups_t *groups, uint8_t group) {
    return groups->fd[groups->group[group].slot[0]];
}

static void bp_perf_begin_group(bp_perf_groups_t *groups, uint8_t slot) {
    groups->group[groups->groups++] = (bp_perf_group_t){.count = 1, .slot = {slot}};
}

/* Add an event to the last group. Begin a new group if the CPU has too few counters, or if the PMU
 * cannot be mixed with the others. */
static void bp_perf_add(bp_perf_groups_t *groups, bp_perf_event_t *event, uint8_t slot) {
    bp_perf_event_t alone = *event;
    bp_perf_group_t *last = groups->groups == 0 ? NULL : &groups->group[groups->groups - 1];
    groups->fd[slot] = -1;
    if (last != NULL) {
        groups->fd[slot] = bp_perf_event_open(event, bp_perf_leader(groups, groups->groups - 1));
    }
    if (groups->fd[slot] >= 0) {
        last->slot[last->count++] = slot;
        return;
    }
    *event = alone;
    groups->fd[slot] = bp_perf_event_open(event, -1);
    if (groups->fd[slot] >= 0) {
        bp_perf_begin_group(groups, slot);
    }
}

bool bp_perf_group_read(const bp_perf_groups_t *groups, uint8_t group, bp_perf_read_t *out) {
    size_t size = (3u + groups->group[group].count) * sizeof(uint64_t);
    return read(bp_perf_leader(groups, group), out, size) == (ssize_t)size;
}

static uint64_t bp_perf_now_ns(void) {
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The kernel may accept a group that then never runs: there may be fewer counters than it assumes,
 * for example because its watchdog uses one. */
static bool bp_perf_runs(const bp_perf_groups_t *groups, uint8_t group) {
    bp_perf_read_t now = {0};
    uint64_t begin = bp_perf_now_ns();
    do {
        if (!bp_perf_group_read(groups, group, &now)) {
            return false;
        }
    } while (now.running == 0 && bp_perf_now_ns() - begin < BP_PERF_TURN_NS);
    return now.running != 0;
}

static void bp_perf_close(bp_perf_groups_t *groups, uint8_t slot) {
    if (groups->fd[slot] >= 0) {
        close(groups->fd[slot]);
        groups->fd[slot] = -1;
    }
}

static void bp_perf_enable(const bp_perf_groups_t *groups, uint8_t group) {
    (void)ioctl(bp_perf_leader(groups, group), PERF_EVENT_IOC_ENABLE, PERF_IOC_FLAG_GROUP);
}

/* Split a group that never runs into groups of one event each, which take turns. */
static void bp_perf_part(bp_perf_groups_t *groups, uint8_t group, bp_perf_event_t *events) {
    bp_perf_group_t whole = groups->group[group];
    groups->group[group].count = 1;
    for (uint8_t i = 0; i < whole.count; i++) {
        bp_perf_close(groups, whole.slot[i]);
    }
    for (uint8_t i = 0; i < whole.count; i++) {
        uint8_t slot = whole.slot[i];
        groups->fd[slot] = bp_perf_event_open(&events[slot], -1);
        if (groups->fd[slot] < 0) {
            continue;
        }
        (void)ioctl(groups->fd[slot], PERF_EVENT_IOC_ENABLE, 0);
        if (i > 0) {
            bp_perf_begin_group(groups, slot);
        }
    }
}

/* Drop an event that never runs even alone: no counter is left for it. */
static void bp_perf_drop(bp_perf_groups_t *groups, uint8_t group, bp_perf_event_t *events) {
    uint8_t slot = groups->group[group].slot[0];
    bp_perf_close(groups, slot);
    bp_event_refuse(&events[slot].told, BP_COUNTER_REFUSED, EBUSY,
                    "the kernel takes it and never lets it count: all counters that could are "
                    "in use");
}

static void bp_perf_forget_empty(bp_perf_groups_t *groups) {
    uint8_t kept = 0;
    for (uint8_t i = 0; i < groups->groups; i++) {
        if (bp_perf_leader(groups, i) >= 0) {
            groups->group[kept++] = groups->group[i];
        }
    }
    groups->groups = kept;
}

void bp_perf_groups_open(bp_perf_groups_t *out, bp_perf_event_t *events, uint8_t count) {
    out->groups = 0;
    for (uint8_t slot = 0; slot < BP_PERF_SLOTS; slot++) {
        out->fd[slot] = -1;
        if (slot < count && events[slot].told.status == BP_COUNTER_OK) {
            bp_perf_add(out, &events[slot], slot);
        }
    }
    uint8_t whole = out->groups;
    for (uint8_t i = 0; i < whole; i++) {
        bp_perf_enable(out, i);
    }
    for (uint8_t i = 0; i < whole; i++) {
        if (out->group[i].count > 1 && !bp_perf_runs(out, i)) {
            bp_perf_part(out, i, events);
        }
    }
    bp_perf_forget_empty(out);
    for (uint8_t i = 0; i < out->groups; i++) {
        if (!bp_perf_runs(out, i)) {
            bp_perf_drop(out, i, events);
        }
    }
    bp_perf_forget_empty(out);
}

void bp_perf_groups_close(bp_perf_groups_t *groups) {
    for (uint8_t slot = 0; slot < BP_PERF_SLOTS; slot++) {
        bp_perf_close(groups, slot);
    }
    groups->groups = 0;
}
