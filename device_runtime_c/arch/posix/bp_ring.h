/* SPDX-License-Identifier: Apache-2.0 */
/* A receiver as small as a small board's: for tests of what a host may send at once. */

#ifndef BP_RING_H
#define BP_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the ring; 0: there is none, and the system's own buffers lose nothing. Otherwise a
 * thread takes what arrives as fast as it can, as a UART's interrupt would, and drops what does not
 * fit. */
#ifndef BP_POSIX_RING
#define BP_POSIX_RING 0
#endif

/* Begin with a connection: `bytes` have arrived already. */
void bp_ring_begin(int fd, const uint8_t *bytes, size_t length);

/* Take up to `capacity` bytes. Returns how many; 0: there are none now. */
size_t bp_ring_take(uint8_t *buffer, size_t capacity);

/* Wait until there are bytes or the connection has ended. Returns false when it has, and all is
 * taken. */
bool bp_ring_wait(void);

/* Let go of the connection, before its descriptor is closed. */
void bp_ring_end(void);

#endif
