/* SPDX-License-Identifier: Apache-2.0 */
/* How a connection gets from one process to another: its descriptor, and what it has sent already.
 */

#ifndef BP_DOOR_H
#define BP_DOOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* Pass `fd` and the bytes of `pieces` through `door`, a socket of type SOCK_SEQPACKET. Does not
 * wait. `fd` stays open here as well. False: too many wait there already. */
bool bp_door_pass(int door, int fd, struct iovec *bytes, size_t pieces);

/* The next connection, or -1: there is none now, or with `wait` a signal came. Stores what it has
 * sent at `bytes`, `length` of at most `capacity`. Ends the process when the other side has gone,
 * since nobody could ever come again. */
int bp_door_take(int door, bool wait, uint8_t *bytes, size_t capacity, size_t *length);

#endif
