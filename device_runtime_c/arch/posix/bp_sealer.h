/* SPDX-License-Identifier: Apache-2.0 */
/* The process between one network connection and the agent, when there is a key: it asks for the
 * key, and from then on turns records into the plain bytes of the line and back. */

#ifndef BP_SEALER_H
#define BP_SEALER_H

#include "bp_key.h"

/* Serve `network`, a connected TCP socket, and `board`, another connected socket, until either
 * ends. Ends the process; the reason of a refusal is on stderr. Wipes the key once what is made of
 * it is there. */
_Noreturn void bp_sealer_run(int network, int board, bp_key_t *key);

#endif
