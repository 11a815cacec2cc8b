/* SPDX-License-Identifier: Apache-2.0 */
/* The socket that hosts connect to, and addresses of hosts. */

#ifndef BP_LISTEN_H
#define BP_LISTEN_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

#define BP_LISTEN_TEXT INET6_ADDRSTRLEN

typedef union {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} bp_listen_at_t;

/* Write the host of an address as text, without brackets. Returns the port. */
unsigned bp_listen_text(const bp_listen_at_t *at, char host[BP_LISTEN_TEXT]);

/* Listen at `address`, in the form of bp_posix_open_tcp; if not `keyed`, only on loopback. Stores
 * the socket at `listener` and prints its address to stdout. Returns an enum bp_posix_exit; prints
 * the reason for an error to stderr. */
int bp_listen_open(const char *address, bool keyed, int *listener);

/* Accept the next host without waiting. Returns its connection, with keep-alive so that a vanished
 * host is noticed, or -1 with errno. */
int bp_listen_accept(int listener);

#endif
