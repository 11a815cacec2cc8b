/* SPDX-License-Identifier: Apache-2.0 */
/* What picolibc needs from a system (its "Operating System Support"): the board's console, a heap
 * of fixed size, and memory for thread-local variables. Linked only into images whose functions
 * need the C library. */

#include <stddef.h>
#include <stdio.h>

#define BP_LIBC_NAME(name) name
#include "../bp_libc_end.h"
#include "boardprof/bp_port.h"

#if BP_LIBC_HEAP && BP_CFG_HEAP
bool bp_port_heap(bp_port_heap_t *out) {
    *out = (bp_port_heap_t){
        .taken = (uint32_t)bp_libc_taken, .refused = bp_libc_refused, .room = UINT32_MAX};
    return true;
}
#endif

void __real_bp_port_init(void);
void __wrap_bp_port_init(void);

/* Kept by tls.ld. Its initial value makes sure that the section has bytes, and so an address. */
static _Thread_local unsigned char bp_tls_anchor __attribute__((used)) = 1;

/* All thread-local variables, and where their initial values are (tls.ld). */
extern char bp_tls_start[], bp_tls_end[];
extern const char bp_tls_load[];

/* errno and others are thread-local: tp + offset. There is one thread, and tp never changes
 * (tls.ld). The linker calls this instead of bp_port_init (--wrap), before any code that could use
 * them. */
void __wrap_bp_port_init(void) {
    const char *from = bp_tls_load;
    for (char *to = bp_tls_start; from != to && to != bp_tls_end;) {
        *to++ = *from++;
    }
#if defined(__riscv)
    __asm__ volatile("la tp, bp_tls_start");
#elif defined(__aarch64__)
    /* They come after two words that belong to an operating system, if there is one (ELF for the
     * Arm 64-bit Architecture, IHI 0056). */
    __asm__ volatile("msr tpidr_el0, %0" : : "r"((uintptr_t)bp_tls_start - 16));
#endif
    __real_bp_port_init();
}

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
