# SPDX-License-Identifier: Apache-2.0
"""The debug information of an ELF file, relocatable or linked, of any machine.

In a relocatable file the debug sections have gaps that the linker fills in: names, the abbreviation
table and the bases of index tables are offsets into other debug sections. pyelftools can fill them
in for some machines only (not for RISC-V or AVR). But by DWARF's rules (7.4, "32-Bit and 64-Bit
DWARF Formats") a reference between debug sections is a plain offset, symbol plus addend, on every
machine. Only these are filled in here. Addresses of code stay wrong; nothing here uses them.

``-fdebug-types-section`` puts each type into its own section, all with the same name. They are read
one after the other, in the linker's order.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from elftools.dwarf.dwarfinfo import DebugSectionDescriptor, DWARFInfo
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import Section

_DEBUG = (".debug_", ".zdebug_")
_OLD_HEADER = 12  # of a .zdebug_ section, before the compressed data: "ZLIB" and the length

_LONG_FORMAT = b"\xff\xff\xff\xff"  # DWARF 5, 7.4: a length that begins so announces 64 bits


def debug_info(elf: ELFFile) -> DWARFInfo | None:
    """Return the debug information, None if absent."""
    if not elf.has_dwarf_info(strict=True):
        return None
    info = elf.get_dwarf_info(relocate_dwarf_sections=False, follow_links=False)
    if elf["e_type"] != "ET_REL":
        return info
    units = _joined(elf, ".debug_info")
    types = _joined(elf, ".debug_types")
    offsets = _joined(elf, ".debug_str_offsets")
    bases = {**units.bases, **types.bases}
    info.debug_info_sec = _filled(elf, units, bases)
    if types.bases:
        info.debug_types_sec = _filled(elf, types, bases)
    if offsets.bases:
        info.debug_str_offsets_sec = _filled(elf, offsets, bases)
    return info


@dataclass(frozen=True)
class _Joined:
    """Sections of one name, one after the other; ``bases`` maps their indices to offsets."""

    name: str
    content: bytes
    bases: Mapping[int, int]


def _joined(elf: ELFFile, name: str) -> _Joined:
    content, bases = bytearray(), {}
    for index, section in enumerate(elf.iter_sections()):
        if section.name == name:
            bases[index] = len(content)
            content += section.data()
        elif section.name == name.replace(".debug_", ".zdebug_"):
            bases[index] = len(content)
            content += zlib.decompress(section.data()[_OLD_HEADER:])
    return _Joined(name, bytes(content), bases)


def _filled(elf: ELFFile, part: _Joined, bases: Mapping[int, int]) -> DebugSectionDescriptor:
    """Return a section with the offsets into other debug sections written into it."""
    content = bytearray(part.content)
    order: Literal["little", "big"] = "little" if elf.little_endian else "big"
    debug = {i for i, s in enumerate(elf.iter_sections()) if s.name.startswith(_DEBUG)}
    for section in elf.iter_sections():
        if not isinstance(section, RelocationSection) or section["sh_info"] not in part.bases:
            continue
        base = part.bases[section["sh_info"]]
        size = 8 if content[base : base + 4] == _LONG_FORMAT else 4
        symbols = _symbols(elf, elf.get_section(section["sh_link"]))
        for offset, number, addend in _relocations(elf, section):
            target, value = symbols[number]
            if target not in debug:
                continue
            gap = slice(base + offset, base + offset + size)
            if addend is None:  # the gap has it
                addend = int.from_bytes(content[gap], order)
            content[gap] = (bases.get(target, 0) + value + addend).to_bytes(size, order)
    stream = io.BytesIO(bytes(content))
    return DebugSectionDescriptor(stream, part.name, 0, len(content), 0)


# There may be a million relocations: pyelftools takes ten seconds, struct takes one.


def _symbols(elf: ELFFile, section: Section) -> list[tuple[int, int]]:
    """Return each symbol's section index and value."""
    if elf.elfclass == 64:  # name, info, other, shndx, value, size
        rows = struct.iter_unpack(_packed(elf, "IBBHQQ"), section.data())
        return [(row[3], row[4]) for row in rows]
    rows = struct.iter_unpack(_packed(elf, "IIIBBH"), section.data())
    return [(row[5], row[1]) for row in rows]  # name, value, size, info, other, shndx


def _relocations(elf: ELFFile, section: RelocationSection) -> Iterator[tuple[int, int, int | None]]:
    """Yield each relocation's offset, symbol number and addend, None if the section has it."""
    word, shift = ("Q", 32) if elf.elfclass == 64 else ("I", 8)
    layout = _packed(elf, 2 * word + (word.lower() if section.is_RELA() else ""))
    for offset, info, *addend in struct.iter_unpack(layout, section.data()):
        yield offset, info >> shift, addend[0] if addend else None


def _packed(elf: ELFFile, layout: str) -> str:
    return ("<" if elf.little_endian else ">") + layout
