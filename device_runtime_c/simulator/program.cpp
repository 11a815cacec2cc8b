/* SPDX-License-Identifier: Apache-2.0 */

#include "program.h"

#include <elf.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace {

std::vector<char> read_file(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        throw std::runtime_error(path + " cannot be read");
    }
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/* A structure of the file. Throws if the file ends before it does. */
template <typename T> T at(const std::vector<char> &file, size_t offset) {
    if (offset > file.size() || file.size() - offset < sizeof(T)) {
        throw std::runtime_error("the file is cut short");
    }
    T found;
    std::memcpy(&found, file.data() + offset, sizeof found);
    return found;
}

void load_segment(const std::vector<char> &file, const Elf32_Phdr &segment, Ram &ram) {
    uint64_t offset = uint64_t(segment.p_paddr) - ram.base;
    uint64_t room = ram.words.size() * 4u;
    if (segment.p_paddr < ram.base || offset > room || segment.p_memsz > room - offset) {
        throw std::runtime_error("a segment lies outside of RAM");
    }
    if (segment.p_filesz > segment.p_memsz || segment.p_offset > file.size() ||
        segment.p_filesz > file.size() - segment.p_offset) {
        throw std::runtime_error("the file is cut short");
    }
    auto *bytes = reinterpret_cast<char *>(ram.words.data()) + offset; /* a little-endian host */
    std::memcpy(bytes, file.data() + segment.p_offset, segment.p_filesz);
    std::memset(bytes + segment.p_filesz, 0, segment.p_memsz - segment.p_filesz);
}

} // namespace

uint32_t load_elf(const std::string &path, Ram &ram) {
    std::vector<char> file = read_file(path);
    auto header = at<Elf32_Ehdr>(file, 0);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_machine != EM_RISCV ||
        header.e_ident[EI_CLASS] != ELFCLASS32 || header.e_type != ET_EXEC) {
        throw std::runtime_error(path + " is no 32-bit RISC-V program");
    }
    for (unsigned i = 0; i < header.e_phnum; i++) {
        auto segment = at<Elf32_Phdr>(file, header.e_phoff + size_t(i) * header.e_phentsize);
        if (segment.p_type == PT_LOAD) {
            load_segment(file, segment, ram);
        }
    }
    return header.e_entry;
}
