/* SPDX-License-Identifier: Apache-2.0 */
/* Open events, in as few groups as the kernel allows. A group is read by one system call, and its
 * events are always counted at the same times. */

#ifndef BOARDPROF_BP_PERF_GROUPS_H
#define BOARDPROF_BP_PERF_GROUPS_H

#include "bp_perf_event.h"

enum { BP_PERF_SLOTS = BP_EVENT_SLOTS };

/* The slots of a group, the leader's first. */
typedef struct {
    uint8_t count;
    uint8_t slot[BP_PERF_SLOTS];
} bp_perf_group_t;

typedef struct {
    int fd[BP_PERF_SLOTS]; /* of the event in each slot, -1: off */
    bp_perf_group_t group[BP_PERF_SLOTS];
    uint8_t groups;
} bp_perf_groups_t;

/* What read(2) returns for a group: perf_event_open(2), PERF_FORMAT_GROUP. */
typedef struct {
    uint64_t count;
    uint64_t enabled; /* ns */
    uint64_t running; /* ns; less than `enabled` if the kernel multiplexed groups */
    uint64_t value[BP_PERF_SLOTS];
} bp_perf_read_t;

/* Open `count` events, one for each slot, for the calling thread and start them. The slot of an
 * event that cannot be counted stays off; its status says so. */
void bp_perf_groups_open(bp_perf_groups_t *out, bp_perf_event_t *events, uint8_t count);

void bp_perf_groups_close(bp_perf_groups_t *groups);

/* Returns whether the whole group could be read. */
bool bp_perf_group_read(const bp_perf_groups_t *groups, uint8_t group, bp_perf_read_t *out);

#endif
