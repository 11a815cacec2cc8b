/* SPDX-License-Identifier: Apache-2.0 */
/* The socket that hosts connect to. */

#ifndef BP_LISTEN_H
#define BP_LISTEN_H

#include <stdbool.h>

/* Listen at `address`, in the form of bp_posix_open_tcp; if not `keyed`, only on loopback. Stores
 * the socket at `listener` and prints its address to stdout. Returns an enum bp_posix_exit; prints
 * the reason for an error to stderr. */
int bp_listen_open(const char *address, bool keyed, int *listener);

/* Accept the next host without waiting. Returns its connection, with keep-alive so that a vanished
 * host is noticed, or -1 with errno. */
int bp_listen_accept(int listener);

#endif
