/* SPDX-License-Identifier: Apache-2.0 */
/* A byte stream over a file descriptor, for boards that are programs of a POSIX system.
 *
 * bp_posix.c defines everything in bp_port.h. The board's port.c only chooses the line: it calls
 * one of the first four functions below before bp_init. A process has one line and one thread. */

#ifndef BP_POSIX_H
#define BP_POSIX_H

#include <stdbool.h>
#include <stdint.h>

/* 1 if the program is linked statically: it loads no libraries, and libc is a part of its image. */
#ifndef BP_POSIX_STATIC
#define BP_POSIX_STATIC 0
#endif

/* What the functions below return, fit for exit(). */
enum bp_posix_exit {
    BP_POSIX_OK = 0,
    BP_POSIX_USAGE = 2,  /* the address is wrong or needs a key; the reason is on stderr */
    BP_POSIX_SYSTEM = 3, /* a system call failed, or the key cannot be used; likewise */
};

/* Listen at `address`, "HOST:PORT". HOST is localhost, an IPv4 address or an [IPv6 address]; PORT 0
 * is any free port. Prints `listening on HOST:PORT` to stdout. Several hosts may connect; one at a
 * time has the board (bp_doorman.h). `key_file` holds the key that they need; NULL: the environment
 * variable BOARDPROF_KEY does. Without a key only loopback is allowed. */
int bp_posix_open_tcp(const char *address, const char *key_file);

/* Open a pseudo-terminal in raw mode. Prints `listening on /dev/pts/N` to stdout. Hosts may open
 * and close it any number of times. */
int bp_posix_open_pty(void);

/* Use the terminal at `path`, in raw mode: a console or a serial port, at the rate that it has. */
int bp_posix_open_tty(const char *path);

/* Use a connected socket. The caller closes it. */
void bp_posix_use_socket(int fd);

/* False after the host of bp_posix_use_socket has gone. Other lines wait for the next host. */
bool bp_posix_is_open(void);

/* Bytes that the receive ring has dropped (bp_ring.h), for tests; 0 without a ring. */
uint32_t bp_posix_ring_dropped(void);

#endif
