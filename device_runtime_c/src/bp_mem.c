/* SPDX-License-Identifier: Apache-2.0 */
/* The four functions that the compiler may call even in a freestanding program (GCC manual, 2.1,
 * "Language Standards Supported by GCC: C Language"). Builds with a C library leave this file out.
 */

#include <stddef.h>

__attribute__((used)) void *memcpy(void *restrict to, const void *restrict from, size_t length);
__attribute__((used)) void *memmove(void *to, const void *from, size_t length);
__attribute__((used)) void *memset(void *to, int value, size_t length);
__attribute__((used)) int memcmp(const void *left, const void *right, size_t length);

void *memcpy(void *restrict to, const void *restrict from, size_t length) {
    unsigned char *out = to;
    const unsigned char *in = from;
    while (length--) {
        *out++ = *in++;
    }
    return to;
}

void *memmove(void *to, const void *from, size_t length) {
    unsigned char *out = to;
    const unsigned char *in = from;
    if (out <= in) {
        while (length--) {
            *out++ = *in++;
        }
    } else {
        while (length--) {
            out[length] = in[length];
        }
    }
    return to;
}

void *memset(void *to, int value, size_t length) {
    unsigned char *out = to;
    while (length--) {
        *out++ = (unsigned char)value;
    }
    return to;
}

int memcmp(const void *left, const void *right, size_t length) {
    const unsigned char *a = left;
    const unsigned char *b = right;
    for (; length--; a++, b++) {
        if (*a != *b) {
            return *a - *b;
        }
    }
    return 0;
}
