/* SPDX-License-Identifier: Apache-2.0 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dl_iterate_phdr, ucontext's registers */
#endif

#include "bp_posix_image.h"

#include <execinfo.h>
#include <link.h>
#include <stddef.h>
#include <ucontext.h>

#include "bp_posix.h"

#define BP_POSIX_FRAMES 64

/// Finding the image ///

static bool bp_segment_has(const struct dl_phdr_info *info, const ElfW(Phdr) * segment,
                           uintptr_t address) {
    uintptr_t begin = info->dlpi_addr + segment->p_vaddr;
    return segment->p_type == PT_LOAD && (segment->p_flags & PF_X) != 0 && address >= begin &&
           address - begin < segment->p_memsz;
}

typedef struct {
    bp_posix_image_t *out;
    int index; /* of the image being examined; 0 is the program */
} bp_search_t;

static int bp_image_visit(struct dl_phdr_info *info, size_t size, void *context) {
    bp_search_t *search = context;
    uintptr_t here = (uintptr_t)bp_posix_image_find;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (bp_segment_has(info, segment, here)) {
            uintptr_t begin = info->dlpi_addr + segment->p_vaddr;
            *search->out = (bp_posix_image_t){
                .name = info->dlpi_name,
                .bias = info->dlpi_addr,
                .text = begin,
                .text_end = begin + segment->p_memsz,
                .is_program = search->index == 0,
            };
            return 1;
        }
    }
    search->index++;
    return 0;
}

void bp_posix_image_find(bp_posix_image_t *out) {
    void *frame[1];
    bp_search_t search = {.out = out};
    (void)dl_iterate_phdr(bp_image_visit, &search);
    (void)backtrace(frame, 1); /* its first call loads the unwinder */
}

/// Registers ///

uintptr_t bp_posix_context_pc(const void *context) {
    const ucontext_t *c = context;
#if defined(__x86_64__)
    return (uintptr_t)c->uc_mcontext.gregs[REG_RIP];
#elif defined(__i386__)
    return (uintptr_t)c->uc_mcontext.gregs[REG_EIP];
#elif defined(__aarch64__)
    return (uintptr_t)c->uc_mcontext.pc;
#elif defined(__arm__)
    return (uintptr_t)c->uc_mcontext.arm_pc;
#elif defined(__riscv)
    return (uintptr_t)c->uc_mcontext.__gregs[REG_PC];
#else
    (void)c;
    return 0;
#endif
}

uintptr_t bp_posix_context_sp(const void *context) {
    const ucontext_t *c = context;
#if defined(__x86_64__)
    return (uintptr_t)c->uc_mcontext.gregs[REG_RSP];
#elif defined(__i386__)
    return (uintptr_t)c->uc_mcontext.gregs[REG_ESP];
#elif defined(__aarch64__)
    return (uintptr_t)c->uc_mcontext.sp;
#elif defined(__arm__)
    return (uintptr_t)c->uc_mcontext.arm_sp;
#elif defined(__riscv)
    return (uintptr_t)c->uc_mcontext.__gregs[REG_SP];
#else
    (void)c;
    return 0;
#endif
}

/* Where a call through a wild pointer came from. No unwinder can find it, since there is no code.
 */
static uintptr_t bp_caller_of_nothing(const void *context) {
    const ucontext_t *c = context;
#if defined(__x86_64__) || defined(__i386__)
    return *(const uintptr_t *)bp_posix_context_sp(c);
#elif defined(__aarch64__)
    return (uintptr_t)c->uc_mcontext.regs[30];
#elif defined(__arm__)
    return (uintptr_t)c->uc_mcontext.arm_lr & ~(uintptr_t)1; /* it marks Thumb code */
#elif defined(__riscv)
    return (uintptr_t)c->uc_mcontext.__gregs[REG_RA];
#else
    (void)c;
    return 0;
#endif
}

/// The program counter ///

#if BP_POSIX_STATIC

/* libc is in the image, behind the agent and the functions: its object with __libc_start_main is
 * the first that a linker takes. Only abort is before them, with code that rarely runs. */
extern const char bp_libc_begin[] __asm__("__libc_start_main");
extern const char bp_abort[] __asm__("abort");
extern const char bp_main[] __asm__("main");

static bool bp_in_libc(uintptr_t address) {
    return address >= (uintptr_t)bp_libc_begin ||
           (address >= (uintptr_t)bp_abort && address < (uintptr_t)bp_main);
}

#else

static bool bp_in_libc(uintptr_t address) {
    (void)address;
    return false;
}

#endif

static bool bp_in_image(const bp_posix_image_t *image, uintptr_t address) {
    return address >= image->text && address < image->text_end && !bp_in_libc(address);
}

/* The call that returns to `address`: the address of its last byte, since the next line of the
 * source may begin at `address`. */
static uint64_t bp_call_before(const bp_posix_image_t *image, uintptr_t address) {
    return bp_in_image(image, address - 1) ? address - 1 - image->bias : 0;
}

uint64_t bp_posix_pc(const bp_posix_image_t *image, const void *context, uintptr_t pc) {
    void *frame[BP_POSIX_FRAMES];
    if (bp_in_image(image, pc)) {
        return pc - image->bias;
    }
    int frames = backtrace(frame, BP_POSIX_FRAMES);
    /* Skip the first frames: those of the handler, up to the code that the signal interrupted. */
    int i = 0;
    while (i < frames && (uintptr_t)frame[i] != pc) {
        i++;
    }
    if (i == frames) {
        return bp_call_before(image, bp_caller_of_nothing(context));
    }
    for (i++; i < frames; i++) {
        uint64_t found = bp_call_before(image, (uintptr_t)frame[i]);
        if (found != 0) {
            return found;
        }
    }
    return 0;
}
