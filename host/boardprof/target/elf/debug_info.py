# SPDX-License-Identifier: Apache-2.0
"""The debug information of an ELF file, relocatable or linked, of any machine, and its entries.

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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from elftools.construct import UBInt16, ULInt16
from elftools.dwarf.die import DIE
from elftools.dwarf.dwarfinfo import DebugSectionDescriptor, DWARFInfo
from elftools.dwarf.structs import DWARFStructs
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import Section

from boardprof.target.elf.object_file import symbol_entries

_DEBUG = (".debug_", ".zdebug_")
# Machines whose assembler leaves the addend, or a part of it, in the section.
_ADDEND_IN_PLACE = {"EM_XTENSA", "EM_SH"}
_OLD_HEADER = 12  # of a .zdebug_ section, before the compressed data: "ZLIB" and the length

_LONG_FORMAT = b"\xff\xff\xff\xff"  # DWARF 5, 7.4: a length that begins so announces 64 bits


def debug_info(elf: ELFFile) -> DWARFInfo | None:
    """Return the debug information, None if absent."""
    if not elf.has_dwarf_info(strict=True):
        return None
    if elf["e_machine"] == "EM_MSP430":
        add_small_addresses()
    info = elf.get_dwarf_info(relocate_dwarf_sections=False, follow_links=False)
    if elf["e_type"] != "ET_REL":
        return info
    sections = list(elf.iter_sections())  # pyelftools reads them anew each time
    units = _joined(sections, ".debug_info")
    types = _joined(sections, ".debug_types")
    offsets = _joined(sections, ".debug_str_offsets")
    bases = {**units.bases, **types.bases}
    info.debug_info_sec = _filled(elf, sections, units, bases)
    if types.bases:
        info.debug_types_sec = _filled(elf, sections, types, bases)
    if offsets.bases:
        info.debug_str_offsets_sec = _filled(elf, sections, offsets, bases)
    return info


@dataclass(frozen=True)
class _Joined:
    """Sections of one name, one after the other; ``bases`` maps their indices to offsets."""

    name: str
    content: bytes
    bases: Mapping[int, int]


def _joined(sections: Sequence[Section], name: str) -> _Joined:
    content, bases = bytearray(), {}
    for index, section in enumerate(sections):
        if section.name == name:
            bases[index] = len(content)
            content += section.data()
        elif section.name == name.replace(".debug_", ".zdebug_"):
            bases[index] = len(content)
            content += zlib.decompress(section.data()[_OLD_HEADER:])
    return _Joined(name, bytes(content), bases)


def _filled(
    elf: ELFFile, sections: Sequence[Section], part: _Joined, bases: Mapping[int, int]
) -> DebugSectionDescriptor:
    """Return a section with the offsets into other debug sections written into it."""
    content = bytearray(part.content)
    order: Literal["little", "big"] = "little" if elf.little_endian else "big"
    debug = {i for i, s in enumerate(sections) if s.name.startswith(_DEBUG)}
    for section in sections:
        if not isinstance(section, RelocationSection) or section["sh_info"] not in part.bases:
            continue
        base = part.bases[section["sh_info"]]
        size = 8 if content[base : base + 4] == _LONG_FORMAT else 4
        table = symbol_entries(elf, sections[section["sh_link"]])
        symbols = [(target, value) for _, value, _, _, target in table]
        for offset, number, addend in _relocations(elf, section):
            target, value = symbols[number]
            if target not in debug:
                continue
            gap = slice(base + offset, base + offset + size)
            if addend is None:  # the gap has it
                addend = int.from_bytes(content[gap], order)
            elif elf["e_machine"] in _ADDEND_IN_PLACE:
                addend += int.from_bytes(content[gap], order)
            place = bases.get(target, 0) + value + addend
            content[gap] = (place % (1 << 8 * size)).to_bytes(size, order)
    stream = io.BytesIO(bytes(content))
    return DebugSectionDescriptor(stream, part.name, 0, len(content), 0)


def _relocations(elf: ELFFile, section: RelocationSection) -> Iterator[tuple[int, int, int | None]]:
    """Yield each relocation's offset, symbol number and addend, None if the section has it.

    There may be a million: pyelftools takes ten seconds, struct takes one.
    """
    word, shift = ("Q", 32) if elf.elfclass == 64 else ("I", 8)
    order = "<" if elf.little_endian else ">"
    layout = order + 2 * word + (word.lower() if section.is_RELA() else "")
    for offset, info, *addend in struct.iter_unpack(layout, section.data()):
        yield offset, info >> shift, addend[0] if addend else None


_WRAPPERS = {
    "DW_TAG_atomic_type",
    "DW_TAG_const_type",
    "DW_TAG_restrict_type",
    "DW_TAG_typedef",
    "DW_TAG_volatile_type",
}

_DEEPEST = 1000  # typedefs of typedefs; only damaged files have more


@dataclass(frozen=True)
class Resolved:
    """A type without its typedefs and qualifiers."""

    die: DIE | None
    const: bool = False  # at any depth of typedefs
    alias: str = ""  # the innermost typedef's name


def resolved(die: DIE) -> Resolved:
    """Return the type of a parameter, function, pointer, array or member."""
    const, alias = False, ""
    for found in type_chain(die):
        if found.tag not in _WRAPPERS:
            return Resolved(found, const, alias)
        const = const or found.tag == "DW_TAG_const_type"
        alias = text(found, "DW_AT_name") if found.tag == "DW_TAG_typedef" else alias
    return Resolved(None, const, alias)


def type_chain(die: DIE) -> Iterator[DIE]:
    """Yield the types of an entry: typedefs, qualifiers, arrays, and their element types."""
    owner = _owner(die, "DW_AT_type")
    for _ in range(_DEEPEST):
        if owner is None:
            return
        found = _complete(_referred(owner, "DW_AT_type"))
        yield found
        inside = found.tag in _WRAPPERS or found.tag == "DW_TAG_array_type"
        owner = _owner(found, "DW_AT_type") if inside else None
    raise ValueError("a type is defined by itself")


def has(die: DIE, attribute: str) -> bool:
    """Tell whether an entry, or the declaration that it completes, has an attribute."""
    return _owner(die, attribute) is not None


def text(die: DIE, attribute: str) -> str:
    """Return an attribute that is a string, "" if absent."""
    owner = _owner(die, attribute)
    value = None if owner is None else owner.attributes[attribute].value
    return value.decode(errors="replace") if isinstance(value, bytes) else ""


def number(die: DIE, attribute: str) -> int | None:
    """Return an attribute that is a constant, None if absent or computed."""
    owner = _owner(die, attribute)
    if owner is None or "ref" in owner.attributes[attribute].form:
        return None
    value = owner.attributes[attribute].value
    return value if isinstance(value, int) else None


def _complete(die: DIE) -> DIE:
    """Return the type that an entry refers to if it is only the signature of another unit."""
    return _referred(die, "DW_AT_signature") if "DW_AT_signature" in die.attributes else die


def _referred(die: DIE, attribute: str) -> DIE:
    """Return the entry that an attribute refers to; pyelftools misses DWARF 5's type units."""
    reference = die.attributes[attribute]
    if reference.form == "DW_FORM_ref_sig8" and die.cu["version"] >= 5:
        for unit in die.dwarfinfo.iter_CUs():
            if unit.header.get("type_signature") == reference.value:
                return unit.get_DIE_from_refaddr(unit.cu_offset + unit["type_offset"])
    return die.get_DIE_from_attribute(attribute)


def _owner(die: DIE, attribute: str) -> DIE | None:
    """Return the entry that has an attribute: this one or the declaration that it completes."""
    return next((each for each in _completed(die) if attribute in each.attributes), None)


def declaration(die: DIE) -> DIE:
    """Return the declaration that an entry completes, such as in a class; else the entry itself."""
    return list(_completed(die))[-1]


def _completed(die: DIE) -> Iterator[DIE]:
    yield die
    for _ in range(_DEEPEST):
        if "DW_AT_specification" not in die.attributes:
            return
        die = die.get_DIE_from_attribute("DW_AT_specification")
        yield die


# -- arrays and aggregates ----------------------------------------------------------------------

AGGREGATES = {
    "DW_TAG_class_type": "class",
    "DW_TAG_structure_type": "struct",
    "DW_TAG_union_type": "union",
}
_NO_LENGTH = {-1, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF}  # upper bounds of an empty array
_MOST_DIMENSIONS = 64


def is_vector(die: DIE) -> bool:
    """Tell whether an array is a value of a vector unit."""
    return has(die, "DW_AT_GNU_vector")


def dimensions(array: DIE) -> tuple[int, ...] | None:
    """Return an array's own dimensions, 0 for an open one; None if computed."""
    found: list[int] = []
    for child in array.iter_children():
        if child.tag != "DW_TAG_subrange_type":
            continue
        bound = "DW_AT_count" if has(child, "DW_AT_count") else "DW_AT_upper_bound"
        value = number(child, bound)
        if value is None and has(child, bound):
            return None
        if bound == "DW_AT_count":
            found.append(value or 0)
        else:
            found.append(0 if value is None or value in _NO_LENGTH else value + 1)
    return tuple(found)


def element_of(of: Resolved) -> tuple[Resolved, tuple[int, ...] | None]:
    """Return the element type of an array of arrays, and all dimensions; None if computed."""
    shape: tuple[int, ...] | None = ()
    for _ in range(_MOST_DIMENSIONS):
        if of.die is None or of.die.tag != "DW_TAG_array_type" or is_vector(of.die):
            return of, shape
        own, inner = dimensions(of.die), resolved(of.die)
        shape = None if shape is None or own is None else shape + own
        of = Resolved(inner.die, of.const or inner.const, inner.alias)
    raise ValueError("an array is an array of itself")


def parameters(die: DIE) -> list[DIE]:
    """Return the parameters of a function or of its type."""
    return [child for child in die.iter_children() if child.tag == "DW_TAG_formal_parameter"]


def members(die: DIE) -> Iterator[DIE]:
    """Yield the members in an aggregate's memory, including the bases of a class."""
    for child in die.iter_children():
        static = has(child, "DW_AT_external") or has(child, "DW_AT_declaration")
        if child.tag in ("DW_TAG_inheritance", "DW_TAG_member") and not static:
            yield child


# -- addresses of two bytes ----------------------------------------------------------------------


_VERSIONS = (2, 3, 4, 5)
_SIZE = 2


class _SmallStructs(DWARFStructs):
    """The layouts of debug information with addresses of two bytes."""

    @property
    def Dwarf_target_addr(self) -> Any:  # pyelftools has this name
        return ULInt16 if self.little_endian else UBInt16

    @Dwarf_target_addr.setter
    def Dwarf_target_addr(self, _: Any) -> None:
        """Keep the type: pyelftools would set one of eight bytes."""


def add_small_addresses() -> None:
    """Let pyelftools read units with addresses of two bytes; it keeps its layouts in a cache."""
    for little_endian in (True, False):
        for version in _VERSIONS:
            key = (little_endian, 32, _SIZE, version)
            if key in DWARFStructs._structs_cache:
                return
            made: Any = object.__new__(_SmallStructs)
            made.little_endian, made.dwarf_format = little_endian, 32
            made.address_size, made.dwarf_version = _SIZE, version
            made._create_structs()
            DWARFStructs._structs_cache[key] = made
