/* SPDX-License-Identifier: Apache-2.0 */
/* Who is at the other end of a connection within this machine. */

#ifndef BP_PEER_H
#define BP_PEER_H

#include <stdbool.h>

/* Whether a TCP connection over loopback was made by this process's user, or by root. False also if
 * that cannot be found out, or if the other side has closed it already. */
bool bp_peer_may_connect(int fd);

#endif
