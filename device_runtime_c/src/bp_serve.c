/* SPDX-License-Identifier: Apache-2.0 */
/* The agent as a whole program: one agent in static memory, polled for ever. */

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"

_Noreturn void bp_serve(const bp_firmware_t *firmware) {
    static bp_agent_t agent;
    bp_init(&agent, firmware);
    for (;;) {
        if (bp_poll(&agent) == 0) {
            bp_port_idle();
        }
    }
}
