/* SPDX-License-Identifier: Apache-2.0 */
/* Where hosts connect: an address, and the socket that listens there. */

#ifndef BP_LISTEN_H
#define BP_LISTEN_H

#include <stdbool.h>

/* Listen at `address` as bp_posix_open_tcp takes it, beyond loopback only with `keyed`. Puts the
 * socket into `listener` and prints where it listens to stdout. Returns an enum bp_posix_exit, with
 * the reason of a refusal on stderr. */
int bp_listen_open(const char *address, bool keyed, int *listener);

/* Accept the next host, if one has come. Returns its connection, which tells after a while when the
 * host has vanished, or -1 with errno. Does not wait. */
int bp_listen_accept(int listener);

#endif
