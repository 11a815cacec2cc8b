/* SPDX-License-Identifier: Apache-2.0 */
/* A receiver as small as that of a small board, to test how much a host sends at once. */

#ifndef BP_RING_H
#define BP_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the ring; 0: no ring, and the system's buffers lose nothing. With a ring, a thread reads
 * as fast as it can, like the interrupt of a UART, and drops what does not fit. */
#ifndef BP_POSIX_RING
#define BP_POSIX_RING 0
#endif

/* Start with a new connection, from which `bytes` have been read already. */
void bp_ring_begin(int fd, const uint8_t *bytes, size_t length);

/* Take up to `capacity` bytes without waiting. Returns how many. */
size_t bp_ring_take(uint8_t *buffer, size_t capacity);

/* Wait for bytes. Returns false if the connection has ended and all bytes are taken. */
bool bp_ring_wait(void);

/* Stop using the connection; call it before its descriptor is closed. */
void bp_ring_end(void);

#endif
