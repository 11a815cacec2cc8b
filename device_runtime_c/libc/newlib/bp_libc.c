/* SPDX-License-Identifier: Apache-2.0 */
/* What newlib asks of a system (its manual, "System Calls"): the board's console, a heap of fixed
 * size, and no files. Linked only into images whose functions need the C library. */

#include <errno.h>
#include <stddef.h>
#include <sys/stat.h>

#include "../bp_libc_end.h"
#include "boardprof/bp_abort.h"
#include "boardprof/bp_port.h"

int _close(int file);
int _fstat(int file, struct stat *status);
int _getpid(void);
int _isatty(int file);
_Noreturn int _kill(int process, int signal);
int _lseek(int file, int offset, int whence);
int _read(int file, char *buffer, int length);
int _write(int file, const char *buffer, int length);

/* To the console: the host shows what is no frame. */
int _write(int file, const char *buffer, int length) {
    (void)file;
    bp_port_write((const uint8_t *)buffer, (size_t)length);
    return length;
}

/* A character device: so newlib sends line after line and not a buffer when it is full. */
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

_Noreturn int _kill(int process, int signal) {
    (void)process;
    (void)signal;
    bp_abort_from(__builtin_return_address(0));
}

int _getpid(void) {
    return 1;
}

#if BP_LIBC_HEAP

void *_sbrk(ptrdiff_t change);

/* For malloc. A call that is ended under way leaves its blocks taken until the next reset; one that
 * is ended within malloc() or free() may leave the heap itself broken until then. */
void *_sbrk(ptrdiff_t change) {
    static _Alignas(16) char heap[BP_LIBC_HEAP];
    static ptrdiff_t used;
    if (change > BP_LIBC_HEAP - used || change < -used) {
        errno = ENOMEM;
        return (void *)-1;
    }
    used += change;
    return heap + used - change;
}

#endif
