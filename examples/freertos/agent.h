/* SPDX-License-Identifier: Apache-2.0 */
/* boardprof's agent as a task. */

#ifndef AGENT_H
#define AGENT_H

#include "FreeRTOS.h"

/* Create the task, before the scheduler starts. */
void agent_create(UBaseType_t priority);

#endif
