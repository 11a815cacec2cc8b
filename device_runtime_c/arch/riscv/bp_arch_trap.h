/* SPDX-License-Identifier: Apache-2.0 */
/* The alignment that the core requires of mtvec's address, for C and assembler: 4 bytes, or more if
 * the core has only vectored traps (RISC-V privileged manual, version 20211203, 3.1.7). A board's
 * flags may set it. */

#ifndef BP_ARCH_TRAP_H
#define BP_ARCH_TRAP_H

#ifndef BP_ARCH_TRAP_ALIGN
#define BP_ARCH_TRAP_ALIGN 4
#endif

#endif
