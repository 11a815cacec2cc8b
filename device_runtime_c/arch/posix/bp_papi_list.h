/* SPDX-License-Identifier: Apache-2.0 */
/* All events that PAPI names: the presets, then each component's native ones. */

#ifndef BOARDPROF_BP_PAPI_LIST_H
#define BOARDPROF_BP_PAPI_LIST_H

#include "bp_papi_sets.h"

/* Event `index`, 0.., described and probed. An entry whose name is empty stands for events that
 * there are not: a component that is disabled, or the library itself. Asks PAPI at index 0, and
 * keeps its list. Returns whether there is one. `description` has BP_EVENT_TEXT bytes. */
bool bp_papi_list_at(bp_event_t *out, char *description, uint32_t index);

#endif
