/* SPDX-License-Identifier: Apache-2.0 */
/* The main function of boards that are programs of a POSIX system, and what their ports share. */

#ifndef BP_POSIX_PROGRAM_H
#define BP_POSIX_PROGRAM_H

#include <stdbool.h>

#include "boardprof/bp_port.h"

/* Serve hosts as the options say (`--help` prints them). Returns the exit code. */
int bp_posix_program(int argc, char **argv);

#if BP_CFG_HEAP
/* What bp_port_heap returns for a program. */
bool bp_posix_heap(bp_port_heap_t *out);
#endif

#endif
