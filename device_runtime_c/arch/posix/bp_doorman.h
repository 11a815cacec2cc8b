/* SPDX-License-Identifier: Apache-2.0 */
/* Several hosts at one agent (protocol/SPEC.md 3.3).
 *
 * The agent serves one connection and may be in a function of the user's for long. So the doorman
 * is a process of its own: it accepts, hears each host's HELLO, answers BUSY while another one has
 * the board, and hands the connection of a host that may have it over to the agent, descriptor and
 * all. From there on the doorman is not in the line: it only watches for its end. It is no thread,
 * since a second thread makes malloc and stdio take locks, and those are in what is measured.
 *
 * With a key there is one more process a connection (bp_sealer.h) between the network and the
 * agent; neither the agent nor the doorman sees anything of it. */

#ifndef BP_DOORMAN_H
#define BP_DOORMAN_H

#include "bp_key.h"

/* Start the doorman of `listener`, which becomes the doorman's. It ends with this process. It has a
 * copy of the key: this process needs its own no more. Returns the descriptor for bp_door_take, or
 * -1 with errno. */
int bp_doorman_start(int listener, bp_key_t *key);

#endif
