/* SPDX-License-Identifier: Apache-2.0 */
/* The doorman: lets one of several hosts use the agent (protocol/SPEC.md 3.3).
 *
 * The agent serves one connection and may be in a user's function for a long time. So the doorman
 * is a separate process. It accepts connections, reads each host's HELLO, and answers BUSY while
 * another host has the board. It passes the connection of the host that gets the board to the
 * agent, as a descriptor; afterwards it only watches for the end of that connection. It is not a
 * thread, because with a second thread malloc and stdio take locks, which would be measured.
 *
 * With a key, each connection has one more process (bp_sealer.h) between network and agent; neither
 * the agent nor the doorman notices it. */

#ifndef BP_DOORMAN_H
#define BP_DOORMAN_H

#include "bp_key.h"

/* Start the doorman for `listener`, which it takes over. It ends with this process. It gets a copy
 * of the key, so the caller can wipe its own. Returns the descriptor for bp_door_take, or -1 with
 * errno. */
int bp_doorman_start(int listener, bp_key_t *key);

#endif
