/* SPDX-License-Identifier: Apache-2.0 */
/* What differs between the two cores. */

#ifndef BOARD_H
#define BOARD_H

#include <stdbool.h>

/* Install the vectors. */
void board_init(void);

/* Turn on the UART's receive interrupt, which calls agent_receive(). */
void board_receive(void);

/* Called by the UART's interrupt. Takes what has arrived, and wakes the agent's task. Returns
 * whether that task should run at once. */
bool agent_receive(void);

#endif
