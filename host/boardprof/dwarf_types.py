# SPDX-License-Identifier: Apache-2.0
"""The C types of an object file's functions, from its DWARF.

The file may be relocatable, of any machine. A relocatable ``.debug_info`` is
full of holes: names and the abbreviation table are offsets into other debug
sections, which the linker is to fill in. pyelftools knows how for some machines
only (not for RISC-V or AVR). It need not be known: whatever the machine calls
such a relocation, a reference from ``.debug_info`` to another debug section is
by DWARF's own rules (7.4, "32-Bit and 64-Bit DWARF Formats") a plain 4-byte
offset, symbol plus addend. Those alone are filled in here. Addresses of code
stay wrong; nobody here asks for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from elftools.dwarf.compileunit import CompileUnit
from elftools.dwarf.die import DIE
from elftools.dwarf.dwarfinfo import DWARFInfo
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

from boardprof.cfunction import Parameter, Scalar

__all__ = ["NotCallable", "Prototype", "prototypes"]


@dataclass(frozen=True)
class Prototype:
    """What a call needs to know; the result None is ``void``."""

    parameters: tuple[Parameter, ...]
    result: Scalar | None
    source: str


@dataclass(frozen=True)
class NotCallable:
    """Why a function cannot be called with scalars alone."""

    reason: str
    source: str


def prototypes(elf: ELFFile) -> dict[str, Prototype | NotCallable]:
    """Return what DWARF says of every function with external linkage that is defined here."""
    found: dict[str, Prototype | NotCallable] = {}
    if not elf.has_dwarf_info(strict=True):
        return found
    info = elf.get_dwarf_info(relocate_dwarf_sections=False, follow_links=False)
    _fill_in(elf, info)
    for unit in info.iter_CUs():
        source = _text(unit.get_top_DIE(), "DW_AT_name")
        for die in _definitions(unit):
            found[_text(die, "DW_AT_name")] = _prototype(die, source)
    return found


def _fill_in(elf: ELFFile, info: DWARFInfo) -> None:
    """Write the offsets into other debug sections into ``.debug_info``."""
    section = elf.get_section_by_name(".rela.debug_info") or elf.get_section_by_name(
        ".rel.debug_info"
    )
    if not isinstance(section, RelocationSection):  # linked already
        return
    assert info.debug_info_sec is not None
    stream = info.debug_info_sec.stream
    order: Literal["little", "big"] = "little" if elf.little_endian else "big"
    symbols = elf.get_section(section["sh_link"])
    assert isinstance(symbols, SymbolTableSection)
    debug = {i for i, s in enumerate(elf.iter_sections()) if s.name.startswith(".debug_")}
    for relocation in section.iter_relocations():
        symbol = symbols.get_symbol(relocation["r_info_sym"])
        if symbol["st_shndx"] not in debug:
            continue
        stream.seek(relocation["r_offset"])
        addend = (
            relocation["r_addend"]
            if relocation.is_RELA()
            else int.from_bytes(stream.read(4), order)
        )
        stream.seek(relocation["r_offset"])
        stream.write((symbol["st_value"] + addend).to_bytes(4, order))


def _definitions(unit: CompileUnit) -> Iterator[DIE]:
    """Yield the functions that this unit defines, each once and under its name.

    A function that is also inlined has two entries: an abstract one with name
    and types, which is taken, and the code, which refers to it.
    """
    for die in unit.get_top_DIE().iter_children():
        if (
            die.tag == "DW_TAG_subprogram"
            and "DW_AT_declaration" not in die.attributes
            and "DW_AT_abstract_origin" not in die.attributes
            and _has(die, "DW_AT_external")
            and _has(die, "DW_AT_name")
        ):
            yield die


def _prototype(die: DIE, source: str) -> Prototype | NotCallable:
    parameters: list[Parameter] = []
    for child in die.iter_children():
        if child.tag == "DW_TAG_unspecified_parameters" and _has(die, "DW_AT_prototyped"):
            return NotCallable("it takes a variable number of arguments", source)
        if child.tag != "DW_TAG_formal_parameter":
            continue
        name = _text(child, "DW_AT_name") or f"arg{len(parameters)}"
        scalar = _scalar(_type(child))
        if not isinstance(scalar, Scalar):
            return NotCallable(f"its parameter {name!r} is {scalar}", source)
        parameters.append(Parameter(name, scalar))
    if parameters and not _has(die, "DW_AT_prototyped"):
        return NotCallable("it is defined in the style of before C89, without a prototype", source)
    returned = _type(die)
    result = None if returned is None else _scalar(returned)
    if isinstance(result, str):
        return NotCallable(f"its result is {result}", source)
    return Prototype(tuple(parameters), result, source)


_WRAPPERS = {
    "DW_TAG_atomic_type",
    "DW_TAG_const_type",
    "DW_TAG_restrict_type",
    "DW_TAG_typedef",
    "DW_TAG_volatile_type",
}
_OTHERS = {
    "DW_TAG_array_type": "a vector",
    "DW_TAG_pointer_type": "a pointer",
    "DW_TAG_structure_type": "a struct",
    "DW_TAG_union_type": "a union",
}
# DWARF 4, 7.8: DW_ATE_boolean, float, signed, signed_char, unsigned, unsigned_char, UTF.
_KINDS = {2: "bool", 4: "f", 5: "i", 6: "i", 7: "u", 8: "u", 0x10: "u"}
_SCALARS = {
    (kind, size): Scalar(text, c_type, size)
    for kind, size, text, c_type in [
        ("bool", 1, "bool", "bool"),
        ("f", 4, "f32", "float"),
        ("f", 8, "f64", "double"),
        *[("i", n, f"i{8 * n}", f"int{8 * n}_t") for n in (1, 2, 4, 8)],
        *[("u", n, f"u{8 * n}", f"uint{8 * n}_t") for n in (1, 2, 4, 8)],
    ]
}


def _type(die: DIE) -> DIE | None:
    """Return the type of a thing, free of typedefs and qualifiers; None is void."""
    owner = _owner(die, "DW_AT_type")
    if owner is None:
        return None
    found = owner.get_DIE_from_attribute("DW_AT_type")
    return _type(found) if found.tag in _WRAPPERS else found


def _scalar(die: DIE | None) -> Scalar | str:
    """Return a type as a scalar, or a few words on what it is instead."""
    if die is None:
        return "of no known type"
    if die.tag == "DW_TAG_enumeration_type":
        return _enumeration(die)
    if die.tag != "DW_TAG_base_type":
        return _OTHERS.get(str(die.tag), "no number")
    size: int = die.attributes["DW_AT_byte_size"].value
    kind = _KINDS.get(die.attributes["DW_AT_encoding"].value, "")
    return _SCALARS.get((kind, size), f"{_text(die, 'DW_AT_name')!r} of {size} bytes")


def _enumeration(die: DIE) -> Scalar | str:
    """Return the integer that an enum is; old compilers do not say, and its values tell."""
    if "DW_AT_type" in die.attributes:
        return _scalar(_type(die))
    signed = any(child.attributes["DW_AT_const_value"].value < 0 for child in die.iter_children())
    size: int = die.attributes["DW_AT_byte_size"].value
    return _SCALARS.get(("i" if signed else "u", size), f"an enum of {size} bytes")


def _owner(die: DIE, attribute: str) -> DIE | None:
    """Return the entry that has an attribute: this one or the declaration that it completes."""
    if attribute in die.attributes:
        return die
    if "DW_AT_specification" in die.attributes:
        return _owner(die.get_DIE_from_attribute("DW_AT_specification"), attribute)
    return None


def _has(die: DIE, attribute: str) -> bool:
    return _owner(die, attribute) is not None


def _text(die: DIE, attribute: str) -> str:
    owner = _owner(die, attribute)
    value = b"" if owner is None else owner.attributes[attribute].value
    return bytes(value).decode(errors="replace")
