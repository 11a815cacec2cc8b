/* SPDX-License-Identifier: Apache-2.0 */
/* Thread-local variables on a board without an operating system. There is one thread, so they are
 * ordinary variables behind its thread pointer, which never changes (tls.ld). Linked only into
 * images that have any: those of the functions' code, or picolibc's, such as errno. */

#include <stdint.h>

/* Kept by tls.ld. Its initial value makes sure that the section has bytes, and so an address. */
static _Thread_local unsigned char bp_tls_anchor __attribute__((used)) = 1;

/* All thread-local variables, and where their initial values are (tls.ld). */
extern char bp_tls_start[], bp_tls_end[];
extern const char bp_tls_load[];

/* Bytes between the thread pointer and the variables (ELF for the Arm Architecture, IHI 0044, and
 * for the Arm 64-bit Architecture, IHI 0056: two words; RISC-V has none, by its ELF psABI). For
 * tls.ld. */
#if defined(__riscv)
__asm__(".globl bp_tls_reserved\n\t.set bp_tls_reserved, 0");
#elif defined(__aarch64__)
__asm__(".globl bp_tls_reserved\n\t.set bp_tls_reserved, 16");
#else
__asm__(".globl bp_tls_reserved\n\t.set bp_tls_reserved, 8");
#endif

void __real_bp_port_init(void);
void __wrap_bp_port_init(void);

#if defined(__arm__)
/* Compilers call it and expect that only r0, ip and lr change (Run-time ABI for the Arm
 * Architecture, IHI 0043, 4.3.5). Weak, so that firmware can bring its own. */
void *__aeabi_read_tp(void);
__attribute__((naked, weak)) void *__aeabi_read_tp(void) {
    __asm__ volatile("ldr r0, 1f\n\tbx lr\n\t.balign 4\n1:\t.word bp_tls_pointer");
}
#endif

/* The linker calls this instead of bp_port_init (--wrap), before any code that could use them. */
void __wrap_bp_port_init(void) {
    const char *from = bp_tls_load;
    for (char *to = bp_tls_start; from != to && to != bp_tls_end;) {
        *to++ = *from++;
    }
#if defined(__riscv)
    __asm__ volatile("la tp, bp_tls_pointer");
#elif defined(__aarch64__)
    extern char bp_tls_pointer[];
    __asm__ volatile("msr tpidr_el0, %0" : : "r"(bp_tls_pointer));
#endif
    __real_bp_port_init();
}
