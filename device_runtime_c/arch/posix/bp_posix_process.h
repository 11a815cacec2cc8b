/* SPDX-License-Identifier: Apache-2.0 */
/* What belongs to the process and not to the function that changes it: the folder and the umask,
 * limits of resources, timers with a signal, handlers of signals, the standard streams, the locale,
 * and, of the agent's thread, blocked signals, CPUs and priority.
 *
 * The thread has a folder and a umask of its own, if the system lets it. Then a function cannot
 * change those of the host, not even for a moment. */

#ifndef BP_POSIX_PROCESS_H
#define BP_POSIX_PROCESS_H

#include "bp_posix_image.h"

/* The agent's thread begins. */
void bp_posix_process_begin(const bp_posix_image_t *image);

/* Before and after a function. After it, all is as it was before, or a warning says what is not:
 * environment variables, and what only root can raise again. */
void bp_posix_process_keep(void);
void bp_posix_process_restore(void);

#endif
