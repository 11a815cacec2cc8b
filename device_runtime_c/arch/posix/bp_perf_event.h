/* SPDX-License-Identifier: Apache-2.0 */
/* An event of perf_event_open(2), parsed from a text as users of perf write it. */

#ifndef BOARDPROF_BP_PERF_EVENT_H
#define BOARDPROF_BP_PERF_EVENT_H

#include "bp_event.h"
#include "bp_perf_names.h"

enum { BP_PERF_TEXT = 96 }; /* most bytes of a text, its final zero included */

typedef struct {
    bp_event_t told; /* its text has `:u` if the kernel allows user mode only */
    bp_perf_code_t code;
    bool user;   /* count in user mode */
    bool kernel; /* count in the kernel */
} bp_perf_event_t;

/* Parse NAME, NAME:MODIFIERS, rHEX or PMU/TERMS/MODIFIERS, with the modifiers u (user mode) and k
 * (kernel). Returns whether it is an event; if not, `told` has the reason. */
bool bp_perf_event_parse(bp_perf_event_t *out, const char *text);

/* Open it for the calling thread, in the group of `leader`; -1: as a leader, disabled at first. If
 * only user mode is allowed, it counts that. Returns a file descriptor, or -1 with a reason in
 * `told`. */
int bp_perf_event_open(bp_perf_event_t *event, int leader);

/* kernel.perf_event_paranoid: -1..2, on some systems more; INT32_MIN if it cannot be read. */
int bp_perf_paranoid(void);

#endif
