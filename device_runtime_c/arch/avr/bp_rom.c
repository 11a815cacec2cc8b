/* SPDX-License-Identifier: Apache-2.0 */
/* Read constant tables from flash: program memory is not part of AVR's data memory.
 *
 * LPM reaches the lowest 64 KiB. Linker scripts put .progmem right after the vectors, so tables
 * stay within that on devices with more (AVR Instruction Set Manual, DS40002198, LPM). */

#include <stdint.h>

#include "boardprof/bp_config.h"

#ifndef __AVR_HAVE_LPMX__
#error "bp_rom_copy needs the instruction LPM Rd, Z+, which this AVR does not have"
#endif

void bp_rom_copy(void *to, const void *rom, size_t length) {
    uint8_t *out = to;
    while (length--) {
        __asm__("lpm %0, %a1+" : "=r"(*out), "+z"(rom));
        out++;
    }
}
