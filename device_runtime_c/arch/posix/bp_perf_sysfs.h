/* SPDX-License-Identifier: Apache-2.0 */
/* Events that the kernel describes in /sys/bus/event_source/devices. Each PMU has a folder with its
 * number (`type`), its named events (`events/NAME`) and the bits of each term (`format/TERM`). */

#ifndef BOARDPROF_BP_PERF_SYSFS_H
#define BOARDPROF_BP_PERF_SYSFS_H

#include "bp_perf_names.h"

/* Find `PMU/TERMS/`, with terms as in perf: `event=0x3c,umask=1`, `config=7`, or a named event of
 * the PMU. Returns NULL if it was found, else the reason as a text. */
const char *bp_perf_sysfs_find(bp_perf_code_t *out, const char *pmu, const char *terms);

/* Find a PMU's event by its name alone: the first PMU that has it, in the order of their names. */
bool bp_perf_sysfs_alias(bp_perf_code_t *out, const char *name);

/* Write named event `index`, 0.., of all PMUs as `PMU/NAME/`. The list is made at index 0 and kept.
 * Returns whether there is such an event. */
bool bp_perf_sysfs_at(char *name, size_t size, unsigned index);

#endif
