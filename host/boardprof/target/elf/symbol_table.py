# SPDX-License-Identifier: Apache-2.0
"""The symbols of a linked image by address: its functions, those of assembly code among them."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from boardprof.target.elf.object_file import (
    GLOBAL,
    LOCAL,
    OBJECT,
    Symbol,
    code_address,
    read_if_possible,
    symbols,
)

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

_EXECUTABLE = 4  # SHF_EXECINSTR
_NOTYPE, _FUNC = 0, 2  # STT_NOTYPE, STT_FUNC
_UNNAMED = (".L", "$", "L0\x01")
"""Labels of compilers and assemblers, and marks of code and data (AAELF, 5.5.5)."""


@dataclass(frozen=True, order=True)
class CodeRange:
    """The code of a function.

    Attributes:
        low: address of its first byte, without the bit that marks Thumb code.
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


def symbol_table(image: Path) -> SymbolTable:
    """Return the functions of an image; empty if it is stripped or is not a linked ELF file."""
    return read_if_possible(image, _read) or SymbolTable([], {})


def _read(elf: ELFFile) -> SymbolTable | None:
    if elf.get_section_by_name(".symtab") is None:
        return None
    sections = enumerate(elf.iter_sections())
    code = {n: s["sh_addr"] + s["sh_size"] for n, s in sections if s["sh_flags"] & _EXECUTABLE}
    found = [
        (code_address(elf, each), each)
        for each in symbols(elf)
        if each.section in code
        and each.kind in (_NOTYPE, _FUNC)
        and each.name
        and not each.name.startswith(_UNNAMED)
    ]
    return SymbolTable(list(_ranges(found, code)), {each.name: low for low, each in found})


def _rank(symbol: Symbol) -> tuple[object, ...]:
    """Return what is lowest for the one of several names that is shown.

    A C function has type and size; users know the global name without underscores.
    """
    name, bind = symbol.name, symbol.bind
    is_less = (symbol.kind != _FUNC, not symbol.size, bind == LOCAL, bind != GLOBAL)
    return (*is_less, name.startswith("_"), len(name), name)


def _ranges(found: Sequence[tuple[int, Symbol]], ends: Mapping[int, int]) -> Iterator[CodeRange]:
    """Yield the code of each address that has a symbol; ``ends``: those of the sections."""
    named: dict[int, list[Symbol]] = {}
    for low, each in found:
        named.setdefault(low, []).append(each)
    lows = sorted(named)
    for low, following in zip(lows, [*lows[1:], None], strict=True):
        symbol = min(named[low], key=_rank)
        end = ends[symbol.section]
        high = end if following is None else min(following, end)
        yield CodeRange(low, min(low + symbol.size, high) if symbol.size else high, symbol.name)


_ANCHORS = {1: "bp_firmware", 2: "bp_agent"}


def anchored_symbols(image: Path) -> Callable[[int, int], str | None]:
    """Return a function from an anchor and a distance (SPEC.md 5.9) to a symbol: ``table+8``.

    It returns None if no symbol is there. The image is read at the first call.
    """
    ranges = cache(lambda: read_if_possible(image, _named_ranges) or [])

    def symbol_at(anchor: int, distance: int) -> str | None:
        start = next((each.low for each in ranges() if each.name == _ANCHORS.get(anchor)), None)
        if start is None:
            return None
        address = start + distance
        found = next((each for each in ranges() if each.low <= address < each.high), None)
        if found is None:
            return None
        return found.name if found.low == address else f"{found.name}+{address - found.low}"

    return symbol_at


def _named_ranges(elf: ELFFile) -> list[CodeRange]:
    """Return the functions and variables of an image, in the order of the table."""
    found = (each for each in symbols(elf) if each.is_in_section)
    places = ((code_address(elf, s) if s.is_function else s.value, s) for s in found)
    return [
        CodeRange(at, at + s.size, s.name) for at, s in places if s.kind == OBJECT or s.is_function
    ]
