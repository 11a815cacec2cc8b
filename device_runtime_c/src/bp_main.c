/* SPDX-License-Identifier: Apache-2.0 */
/* main of a firmware that has only the agent and the functions to be measured. */

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"

int main(void) {
    bp_port_init();
    bp_serve();
}
