/* SPDX-License-Identifier: Apache-2.0 */
/* The function of faults.c that needs a C library, or the agent's own abort. */

#include "boardprof/bp_function.h"

_Noreturn void abort(void); /* C11, 7.22.4.1; stdlib.h is not freestanding */

void proof_abort(void);

void proof_abort(void) {
    abort();
}

BP_FUNCTION(proof_abort);
