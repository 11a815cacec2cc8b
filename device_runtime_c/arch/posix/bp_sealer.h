/* SPDX-License-Identifier: Apache-2.0 */
/* With a key, the process between a network connection and the agent: it checks the key, and then
 * translates between records on the network and the plain bytes of the line. */

#ifndef BP_SEALER_H
#define BP_SEALER_H

#include "bp_key.h"

/* Serve `network`, a connected TCP socket, and `board`, another connected socket, until either one
 * ends; then end the process. Prints the reason for a refusal to stderr. Wipes the key after the
 * session keys are derived. */
_Noreturn void bp_sealer_run(int network, int board, bp_key_t *key);

#endif
