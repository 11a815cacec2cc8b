/* SPDX-License-Identifier: Apache-2.0 */
/* Pass a connection to another process: its descriptor and the bytes that were read from it. */

#ifndef BP_DOOR_H
#define BP_DOOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* Pass `fd` and the bytes of `pieces` through `door`, a socket of type SOCK_SEQPACKET. Does not
 * wait. `fd` stays open here as well. False: the other side's queue is full. */
bool bp_door_pass(int door, int fd, struct iovec *bytes, size_t pieces);

/* Take the next connection. Returns -1 if none is waiting or, with `wait`, if a signal came. Stores
 * the bytes that were read from it at `bytes`, and their number, at most `capacity`, at `length`.
 * Ends the process if the other side has ended: no host could connect any more. */
int bp_door_take(int door, bool wait, uint8_t *bytes, size_t capacity, size_t *length);

#endif
