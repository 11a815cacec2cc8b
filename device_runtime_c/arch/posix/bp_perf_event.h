/* SPDX-License-Identifier: Apache-2.0 */
/* An event of perf_event_open(2) from the text that perf's users write. */

#ifndef BOARDPROF_BP_PERF_EVENT_H
#define BOARDPROF_BP_PERF_EVENT_H

#include "bp_perf_names.h"

enum { BP_PERF_TEXT = 96, BP_PERF_REASON = 160 };

/* An event, and whether it can be counted. */
typedef struct {
    bp_perf_code_t code;
    bool user;                   /* what happens in user mode counts */
    bool kernel;                 /* what happens in the kernel counts */
    uint8_t status;              /* enum bp_counter_status */
    int error;                   /* errno of a refusal, else 0 */
    char text[BP_PERF_TEXT];     /* with `:u` where the kernel allows no more; up to 95 bytes */
    char reason[BP_PERF_REASON]; /* why not, for people; empty: it can */
} bp_perf_event_t;

/* Understand NAME, NAME:MODIFIERS, rHEX, PMU/TERMS/MODIFIERS; modifiers u (user mode) and k
 * (kernel). Returns whether it is an event that can be asked for; if not, `status` and `reason` say
 * why. */
bool bp_perf_event_parse(bp_perf_event_t *out, const char *text);

/* Open it for the calling thread, in the group of `leader` (-1: as a leader, that begins disabled).
 * Where only user mode is allowed, counts that. Returns a file descriptor, or -1 with status, error
 * and reason. */
int bp_perf_event_open(bp_perf_event_t *event, int leader);

/* kernel.perf_event_paranoid: -1 .. 2, on some systems more; INT32_MIN where it cannot be read. */
int bp_perf_paranoid(void);

/* Note why it cannot be counted. */
void bp_perf_event_refuse(bp_perf_event_t *event, uint8_t status, int error, const char *reason);

#endif
