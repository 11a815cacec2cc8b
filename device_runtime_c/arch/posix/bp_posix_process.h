/* SPDX-License-Identifier: Apache-2.0 */
/* What belongs to the process and not to the function that changes it: the folder and the umask,
 * limits of resources, the real-time alarm, and, of the agent's thread, blocked signals and CPUs.
 *
 * The thread has a folder and a umask of its own, if the system lets it. Then a function cannot
 * change those of the host, not even for a moment. */

#ifndef BP_POSIX_PROCESS_H
#define BP_POSIX_PROCESS_H

#include <stdbool.h>

/* The agent's thread begins. */
void bp_posix_process_begin(bool is_program);

/* Before and after a function. After it, all is as it was before; returns whether it is. */
void bp_posix_process_keep(void);
bool bp_posix_process_restore(void);

#endif
