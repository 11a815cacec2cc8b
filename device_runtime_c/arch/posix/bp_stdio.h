/* SPDX-License-Identifier: Apache-2.0 */
/* An agent on standard input and output, as ssh gives them to a program: no port is open. */

#ifndef BP_STDIO_H
#define BP_STDIO_H

/* Serve the host at standard input and output. Prints `listening on standard input` first. What
 * functions print to standard output goes to standard error from then on.
 *
 * The calling process becomes two. One passes bytes on, and ends the other when the host has gone,
 * even within a call that never ends. This function returns in the other one, which is the agent;
 * then bp_posix_is_open tells when the host has gone. Returns an enum bp_posix_exit. */
int bp_stdio_open(void);

#endif
