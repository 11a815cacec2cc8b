/* SPDX-License-Identifier: Apache-2.0 */
/* An event of perf_event_open(2) from the text that perf's users write. */

#ifndef BOARDPROF_BP_PERF_EVENT_H
#define BOARDPROF_BP_PERF_EVENT_H

#include "bp_event.h"
#include "bp_perf_names.h"

enum { BP_PERF_TEXT = 96 }; /* bytes of a text that is understood, its end included */

typedef struct {
    bp_event_t told; /* its text with `:u` where the kernel allows no more */
    bp_perf_code_t code;
    bool user;   /* what happens in user mode counts */
    bool kernel; /* what happens in the kernel counts */
} bp_perf_event_t;

/* Understand NAME, NAME:MODIFIERS, rHEX, PMU/TERMS/MODIFIERS; modifiers u (user mode) and k
 * (kernel). Returns whether it is an event that can be asked for; if not, `told` says why. */
bool bp_perf_event_parse(bp_perf_event_t *out, const char *text);

/* Open it for the calling thread, in the group of `leader` (-1: as a leader, that begins disabled).
 * Where only user mode is allowed, counts that. Returns a file descriptor, or -1; `told` says why.
 */
int bp_perf_event_open(bp_perf_event_t *event, int leader);

/* kernel.perf_event_paranoid: -1 .. 2, on some systems more; INT32_MIN where it cannot be read. */
int bp_perf_paranoid(void);

#endif
