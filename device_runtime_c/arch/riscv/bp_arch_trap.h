/* SPDX-License-Identifier: Apache-2.0 */
/* What the core asks of mtvec's address, for C and assembler: 4 bytes, more where it has vectored
 * traps only (RISC-V privileged manual, version 20211203, 3.1.7). A board's flags may say so. */

#ifndef BP_ARCH_TRAP_H
#define BP_ARCH_TRAP_H

#ifndef BP_ARCH_TRAP_ALIGN
#define BP_ARCH_TRAP_ALIGN 4
#endif

#endif
