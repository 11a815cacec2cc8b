/* SPDX-License-Identifier: Apache-2.0 */
/* The main function of boards that are programs of a POSIX system. */

#ifndef BP_POSIX_PROGRAM_H
#define BP_POSIX_PROGRAM_H

/* Serve hosts as the options say (`--help` prints them). Returns the exit code. */
int bp_posix_program(int argc, char **argv);

#endif
