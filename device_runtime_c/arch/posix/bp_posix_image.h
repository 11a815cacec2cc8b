/* SPDX-License-Identifier: Apache-2.0 */
/* Where a thread stood when a signal came, in the terms of the agent's own ELF file. */

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

/* Find it, and load what bp_posix_pc needs, which no signal handler may. Call it once. */
void bp_posix_image_find(bp_posix_image_t *out);

/* Program counter and stack pointer of a signal handler's third argument; 0 on CPUs unknown here.
 */
uintptr_t bp_posix_context_pc(const void *context);
uintptr_t bp_posix_context_sp(const void *context);

/* `pc` as an address of the ELF file. Outside of the image, as in a function of libc, the innermost
 * call that leads there from within the image; 0 when there is none. For signal handlers; may fault
 * itself where the stack is in ruins. */
uint64_t bp_posix_pc(const bp_posix_image_t *image, const void *context, uintptr_t pc);

#endif
