/* SPDX-License-Identifier: Apache-2.0 */
/* All events that PAPI names: the presets, then each component's native ones. */

#ifndef BOARDPROF_BP_PAPI_LIST_H
#define BOARDPROF_BP_PAPI_LIST_H

#include "bp_papi_sets.h"

/* Describe and probe event `index`, 0... Its name is empty if it stands for missing events: those
 * of a disabled component or of the whole library. The list is read from PAPI at index 0 and kept.
 * Returns whether there is such an event. `description` has BP_EVENT_TEXT bytes. */
bool bp_papi_list_at(bp_event_t *out, char *description, uint32_t index);

#endif
