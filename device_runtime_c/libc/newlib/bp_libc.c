/* SPDX-License-Identifier: Apache-2.0 */
/* What newlib needs from a system (its manual, "System Calls"): the board's console, a heap of
 * fixed size, and no files. Linked only into images whose functions need the C library. */

#include <stddef.h>
#include <sys/stat.h>

/* newlib calls these functions with a leading underscore. */
#define BP_LIBC_NAME(name) _##name
#include "../bp_libc_end.h"
#include "boardprof/bp_port.h"

#if BP_LIBC_HEAP && BP_CFG_HEAP

/* The lists of free blocks in newlib's malloc (Doug Lea's, version 2.6). The third entry is the
 * highest block, which is not in use yet. Absent in newlib's smaller malloc. */
extern uint32_t *__malloc_av_[] __attribute__((weak));

/* newlib takes whole pages from the system, so what is still free of them does not count. */
bool bp_port_heap(bp_port_heap_t *out) {
    uint32_t taken = (uint32_t)bp_libc_taken;
    if (__malloc_av_ != NULL && taken != 0) {
        taken -= __malloc_av_[2][1] & ~3u; /* its size, and two flags */
    }
    *out = (bp_port_heap_t){.taken = taken, .refused = bp_libc_refusals(), .room = UINT32_MAX};
    return true;
}

#endif

int _close(int file);
int _fstat(int file, struct stat *status);
int _isatty(int file);
int _lseek(int file, int offset, int whence);
int _read(int file, char *buffer, int length);
int _write(int file, const char *buffer, int length);

/* To the console: the host shows everything that is not a frame. */
int _write(int file, const char *buffer, int length) {
    (void)file;
    bp_port_write((const uint8_t *)buffer, (size_t)length);
    return length;
}

/* A character device, so that newlib sends each line, instead of a buffer whenever it is full. */
int _fstat(int file, struct stat *status) {
    (void)file;
    *status = (struct stat){.st_mode = S_IFCHR};
    return 0;
}

int _isatty(int file) {
    (void)file;
    return 1;
}

int _read(int file, char *buffer, int length) {
    (void)file;
    (void)buffer;
    (void)length;
    return 0;
}

int _lseek(int file, int offset, int whence) {
    (void)file;
    (void)offset;
    (void)whence;
    return 0;
}

int _close(int file) {
    (void)file;
    return 0;
}
