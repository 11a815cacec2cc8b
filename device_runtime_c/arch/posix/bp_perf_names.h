/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's generic events (hardware, software, cache) by the names that perf uses. */

#ifndef BOARDPROF_BP_PERF_NAMES_H
#define BOARDPROF_BP_PERF_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The arguments for perf_event_open(2), and what a user must know about the event. */
typedef struct {
    uint32_t type; /* PERF_TYPE_*, or the number of a PMU of sysfs */
    uint64_t config;
    uint64_t config1;
    uint64_t config2;
    bool is_time;   /* counts ns */
    bool in_kernel; /* happens only in the kernel: in user mode its count is always 0 */
} bp_perf_code_t;

/* Find a generic event. */
bool bp_perf_name_find(bp_perf_code_t *out, const char *name);

/* If `name`, with room for `size` bytes, is PAPI's name of a generic event, replace it by perf's.
 * Always false where libpapi can be loaded. */
bool bp_perf_name_of_papi(char *name, size_t size);

unsigned bp_perf_name_count(void);

/* Write name and description of generic event `index`, with room for `size` bytes each. */
void bp_perf_name_at(char *name, char *description, size_t size, unsigned index);

#endif
