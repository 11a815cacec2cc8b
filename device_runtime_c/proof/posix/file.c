/* SPDX-License-Identifier: Apache-2.0 */
/* What Linux tells of itself in files, for boardprof doctor. */

#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

#include "boardprof/bp_function.h"

int32_t proof_file(const char *path, uint8_t *text, uint32_t size);

/* Read a file into `text`. Returns its length, `size` at most; -1: it cannot be read. */
int32_t proof_file(const char *path, uint8_t *text, uint32_t size) {
    uint32_t length = 0;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return -1;
    }
    ssize_t got;
    while (length < size && (got = read(file, text + length, size - length)) > 0) {
        length += (uint32_t)got;
    }
    close(file);
    return (int32_t)length;
}
