/* SPDX-License-Identifier: Apache-2.0 */
/* The program: a 32-bit little-endian RISC-V ELF file, put into RAM according to its program
 * headers. */

#ifndef SIM_PROGRAM_H
#define SIM_PROGRAM_H

#include <cstdint>
#include <string>
#include <vector>

/* The system's RAM: words from address `base` on. */
struct Ram {
    uint32_t base;
    std::vector<uint32_t> words;
};

/* Put the program at `path` into `ram`. Returns its entry point. Throws std::runtime_error, which
 * says what is wrong with the file. */
uint32_t load_elf(const std::string &path, Ram &ram);

#endif
