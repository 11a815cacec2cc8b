# SPDX-License-Identifier: Apache-2.0
"""The functions of a linked image by address, those of assembly code among them."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from boardprof.target.elf.object_file import read_if_possible

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

_EXECUTABLE = 4  # SHF_EXECINSTR
_NOTYPE, _FUNC = 0, 2  # st_info
_LOCAL, _GLOBAL = 0, 1
_UNNAMED = (".L", "$", "L0\x01")
"""Labels of compilers and assemblers, and marks of code and data (AAELF, 5.5.5)."""

_LAYOUTS = {  # ELF, "Symbol Table"
    32: [("name", "u4"), ("value", "u4"), ("size", "u4"), ("info", "u1"), ("other", "u1"),
         ("section", "u2")],
    64: [("name", "u4"), ("info", "u1"), ("other", "u1"), ("section", "u2"), ("value", "u8"),
         ("size", "u8")],
}  # fmt: skip


@dataclass(frozen=True, order=True)
class CodeRange:
    """The code of a function.

    Attributes:
        low: address of its first byte, without the bit that marks Thumb code.
        high: address after its last byte.
        name: of several names for the same code, the one that a user most likely knows.
    """

    low: int
    high: int
    name: str


class SymbolTable:
    """The functions of an image, by address."""

    def __init__(self, functions: Sequence[CodeRange], entries: Mapping[str, int]) -> None:
        """Take functions in the order of their addresses, and the address of every name."""
        self.functions = functions
        self.entries = entries
        self._lows = [each.low for each in functions]

    def at(self, address: int) -> CodeRange | None:
        """Return the function whose code is at an address; None if no function is there."""
        index = bisect.bisect_right(self._lows, address) - 1
        if index < 0 or address >= self.functions[index].high:
            return None
        return self.functions[index]


def symbol_array(elf: ELFFile, section: Any) -> Any:
    """Return a section of symbols as a numpy array with the fields of `_LAYOUTS`.

    There may be a million: pyelftools takes ten seconds for them.
    """
    order = "<" if elf.little_endian else ">"
    layout = np.dtype([(name, order + kind) for name, kind in _LAYOUTS[elf.elfclass]])
    return np.frombuffer(section.data(), layout)


def symbol_table(image: Path) -> SymbolTable:
    """Return the functions of an image; empty if it is stripped or is not a linked ELF file."""
    return read_if_possible(image, _read) or SymbolTable([], {})


def _read(elf: ELFFile) -> SymbolTable | None:
    section = elf.get_section_by_name(".symtab")
    if section is None:
        return None
    table = symbol_array(elf, section)
    code = [
        number for number, each in enumerate(elf.iter_sections()) if each["sh_flags"] & _EXECUTABLE
    ]
    kind = table["info"] & 15
    table = table[np.isin(table["section"], code) & ((kind == _FUNC) | (kind == _NOTYPE))]
    strings = elf.get_section(section["sh_link"]).data()
    ends = {n: elf.get_section(n)["sh_addr"] + elf.get_section(n)["sh_size"] for n in code}
    mask = ~1 if elf["e_machine"] == "EM_ARM" else ~0
    symbols = list(_symbols(table, strings, mask))
    return SymbolTable(list(_ranges(symbols, ends)), {each.name: each.low for each in symbols})


@dataclass(frozen=True)
class _Symbol:
    name: str
    low: int
    size: int
    section: int
    rank: tuple[Any, ...]  # the name with the lowest rank is shown


def _symbols(table: Any, strings: bytes, mask: int) -> Iterator[_Symbol]:
    columns = (table[key].tolist() for key in ("name", "value", "size", "info", "section"))
    for name_at, value, size, info, section in zip(*columns, strict=True):
        name = strings[name_at : strings.index(b"\0", name_at)].decode(errors="replace")
        if name and not name.startswith(_UNNAMED):
            bind = info >> 4
            # A C function has type and size; users know the global name without underscores.
            is_less = (info & 15 != _FUNC, not size, bind == _LOCAL, bind != _GLOBAL)
            rank = (*is_less, name.startswith("_"), len(name), name)
            yield _Symbol(name, value & mask, size, section, rank)


def _ranges(symbols: Sequence[_Symbol], ends: Mapping[int, int]) -> Iterator[CodeRange]:
    shown: dict[int, _Symbol] = {}
    for each in symbols:
        if each.low not in shown or each.rank < shown[each.low].rank:
            shown[each.low] = each
    lows = sorted(shown)
    for low, following in zip(lows, [*lows[1:], None], strict=True):
        symbol = shown[low]
        end = ends[symbol.section]
        high = end if following is None else min(following, end)
        yield CodeRange(low, min(low + symbol.size, high) if symbol.size else high, symbol.name)
