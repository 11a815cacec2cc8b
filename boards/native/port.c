/* SPDX-License-Identifier: Apache-2.0 */
/* This machine, inside the host's own process: a shared library that serves one socket. */

#include <stdatomic.h>

#include "boardprof/bp.h"
#include "boardprof/bp_port.h"
#include "bp_posix.h"

/* Run the agent on `fd`, one end of a socketpair, in the calling thread. Returns 0 when the peer
 * has closed its end, or -1 at once while another thread is in here: the agent and the functions
 * that it measures are static, there is one of each. `fd` stays the caller's. */
int bp_native_serve(int fd);

int bp_native_serve(int fd) {
    static atomic_flag busy = ATOMIC_FLAG_INIT;
    static bp_agent_t agent;
    if (atomic_flag_test_and_set(&busy)) {
        return -1;
    }
    bp_posix_use_socket(fd);
    bp_port_init();
    bp_init(&agent, &bp_firmware);
    while (bp_posix_is_open()) {
        if (bp_poll(&agent) == 0) {
            bp_port_idle();
        }
    }
    atomic_flag_clear(&busy);
    return 0;
}
