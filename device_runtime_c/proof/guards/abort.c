/* SPDX-License-Identifier: Apache-2.0 */
/* The function of faults.c that needs a C library, or the agent's own abort. */

#include <stdlib.h>

#include "boardprof/bp_function.h"

void proof_abort(void);

void proof_abort(void) {
    abort();
}

BP_FUNCTION(proof_abort);
