/* SPDX-License-Identifier: Apache-2.0 */
/* A byte stream over a file descriptor, for boards that are programs of a POSIX system.
 *
 * bp_posix.c defines all of bp_port.h; such a board's port.c only says where the host comes from:
 * it calls one of the three functions below before bp_init. One line a process, one thread. */

#ifndef BP_POSIX_H
#define BP_POSIX_H

#include <stdbool.h>

/* What the functions below return, fit for exit(). */
enum bp_posix_exit {
    BP_POSIX_OK = 0,
    BP_POSIX_SYSTEM = 3, /* the system said no; errno's text is on stderr */
    BP_POSIX_USAGE = 2,  /* the address is wrong or not a loopback one; the reason is on stderr */
};

/* Listen at `address`, "HOST:PORT": HOST is localhost or 127.x.y.z, PORT 0 takes any free one.
 * Prints `listening on HOST:PORT` to stdout. Serves one host at a time; the next may connect
 * meanwhile and is served when the one before has gone. */
int bp_posix_open_tcp(const char *address);

/* Open a pseudo-terminal in raw mode. Prints `listening on /dev/pts/N` to stdout. Hosts may open
 * and close it as they like. */
int bp_posix_open_pty(void);

/* Use a connected socket. It stays the caller's, who closes it. */
void bp_posix_use_socket(int fd);

/* False once the host of bp_posix_use_socket has gone. The others wait for the next host. */
bool bp_posix_is_open(void);

#endif
