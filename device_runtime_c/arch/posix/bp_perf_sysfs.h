/* SPDX-License-Identifier: Apache-2.0 */
/* Events that the kernel describes in /sys/bus/event_source/devices: a folder a PMU, with its
 * number
 * (`type`), its named events (`events/NAME`) and where each term goes (`format/TERM`). */

#ifndef BOARDPROF_BP_PERF_SYSFS_H
#define BOARDPROF_BP_PERF_SYSFS_H

#include "bp_perf_names.h"

/* Find `PMU/TERMS/`, terms as perf writes them: `event=0x3c,umask=1`, `config=7`, or one of the
 * PMU's named events. NULL: found; else what is wrong, for people. */
const char *bp_perf_sysfs_find(bp_perf_code_t *out, const char *pmu, const char *terms);

/* Find a PMU's event by its name alone: the first PMU that has it, in the order of their names. */
bool bp_perf_sysfs_alias(bp_perf_code_t *out, const char *name);

/* Write named event `index` of all PMUs, 0.., as `PMU/NAME/`. Lists the folders at index 0, and
 * keeps the list. Returns whether there is one. */
bool bp_perf_sysfs_at(char *name, size_t size, unsigned index);

#endif
