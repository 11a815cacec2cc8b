/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses in a signal handler, translated to those of the agent's ELF file. */

#ifndef BP_POSIX_IMAGE_H
#define BP_POSIX_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

/* The image (program or shared object) that holds the agent, as it was loaded. */
typedef struct {
    const char *name; /* as the loader knows it; "" for the program */
    uintptr_t bias;   /* what the loader added to the file's addresses */
    uintptr_t text;   /* its code: from here .. */
    uintptr_t text_end;
    bool is_program;
} bp_posix_image_t;

/* Find the image and load what bp_posix_pc needs, since a signal handler may not. Call it once. */
void bp_posix_image_find(bp_posix_image_t *out);

/* Program counter and stack pointer from a signal handler's third argument; 0 on other CPUs. */
uintptr_t bp_posix_context_pc(const void *context);
uintptr_t bp_posix_context_sp(const void *context);

/* `pc` as an address of the ELF file. If it is outside of the image, in libc for example, the
 * innermost call in the image that led there; 0 if there is none. For signal handlers. It may fault
 * itself if the stack is destroyed. */
uint64_t bp_posix_pc(const bp_posix_image_t *image, const void *context, uintptr_t pc);

#endif
