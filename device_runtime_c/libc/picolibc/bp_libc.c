/* SPDX-License-Identifier: Apache-2.0 */
/* What picolibc needs from a system (its "Operating System Support"): the board's console, and a
 * heap of fixed size. Linked only into images whose functions need the C library, with bp_tls.c:
 * errno and others are thread-local. */

#include <stddef.h>
#include <stdio.h>

#define BP_LIBC_NAME(name) name
#include "../bp_libc_end.h"
#include "boardprof/bp_port.h"

#if BP_LIBC_HEAP && BP_CFG_HEAP
bool bp_port_heap(bp_port_heap_t *out) {
    *out = (bp_port_heap_t){
        .taken = (uint32_t)bp_libc_taken, .refused = bp_libc_refusals(), .room = UINT32_MAX};
    return true;
}
#endif

/* To the console: the host shows everything that is not a frame. */
static int bp_libc_put(char byte, FILE *file) {
    (void)file;
    bp_port_write((const uint8_t *)&byte, 1);
    return (unsigned char)byte;
}

static FILE bp_libc_console = FDEV_SETUP_STREAM(bp_libc_put, NULL, NULL, _FDEV_SETUP_WRITE);
FILE *const stdin = &bp_libc_console;
FILE *const stdout = &bp_libc_console;
FILE *const stderr = &bp_libc_console;
