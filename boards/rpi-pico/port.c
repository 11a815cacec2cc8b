/* SPDX-License-Identifier: Apache-2.0 */
/* Raspberry Pi Pico: RP2040 with a crystal of 12 MHz; the line is on pins 1 and 2. */

#include "bp_arch_rp2040.h"

/* Do what the core does at a reset: vectors, stack, start. VTOR: ARMv6-M ARM (DDI 0419), B3.2.5. */
__attribute__((naked, section(".bp_entry"), used)) void bp_pico_entry(void);
void bp_pico_entry(void) {
    __asm__ volatile(".syntax unified\n"
                     "ldr  r0, =bp_vectors\n"
                     "ldr  r1, =0xe000ed08\n"
                     "str  r0, [r1]\n"
                     "ldr  r1, [r0, #4]\n"
                     "ldr  r0, [r0]\n"
                     "msr  msp, r0\n"
                     "bx   r1\n");
}
