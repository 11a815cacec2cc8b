# SPDX-License-Identifier: Apache-2.0
"""What the symbol table of an ELF file says of functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

__all__ = ["global_functions", "global_names", "is_lto_only", "local_functions", "main_source"]
__all__ += ["same_place"]


def global_functions(elf: ELFFile) -> Iterator[tuple[str, bool]]:
    """Yield the name of every global function that is defined here, and whether it is weak."""
    for symbol in _functions(_global_symbols(elf)):
        bind = symbol["st_info"]["bind"]
        if bind in ("STB_GLOBAL", "STB_WEAK"):
            yield symbol.name.partition("@")[0], bind == "STB_WEAK"  # name@@version


def global_names(elf: ELFFile) -> Iterator[tuple[str, bool]]:
    """Yield the name of every global function and variable, and whether it is defined here."""
    for symbol in _global_symbols(elf):
        if symbol.name:
            yield symbol.name, symbol["st_shndx"] != "SHN_UNDEF"


def same_place(elf: ELFFile) -> dict[str, list[str]]:
    """Return for each function the names that its code has, in the order of the table."""
    at: dict[tuple[Any, int], list[str]] = {}
    for symbol in _functions(_symbols(elf)):
        at.setdefault((symbol["st_shndx"], symbol["st_value"]), []).append(symbol.name)
    return {name: names for names in at.values() for name in names}


def local_functions(elf: ELFFile) -> set[str]:
    """Return the names of the functions here that no other file can call."""
    return {
        symbol.name.partition(".")[0]  # GCC's clones: name.part.0
        for symbol in _functions(_symbols(elf))
        if symbol["st_info"]["bind"] == "STB_LOCAL"
    }


def is_lto_only(elf: ELFFile) -> bool:
    """Tell whether an object has the compiler's own form of the code and no other."""
    names = {section.name for section in elf.iter_sections()}
    return ".debug_info" not in names and any(name.startswith(".gnu.lto_") for name in names)


def main_source(elf: ELFFile) -> str | None:
    """Return what an object says that it was compiled from; a program is made of many."""
    if elf["e_type"] != "ET_REL":
        return None
    files = (s.name for s in _symbols(elf) if s["st_info"]["type"] == "STT_FILE")
    return next(files, None)


def _functions(symbols: Iterable[Any]) -> Iterator[Any]:
    for symbol in symbols:
        if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_shndx"] != "SHN_UNDEF":
            yield symbol


def _symbols(elf: ELFFile) -> Iterator[Any]:
    """Yield all symbols; those of a stripped library are the ones that it exports."""
    table = _table(elf)
    return iter(()) if table is None else table.iter_symbols()


def _global_symbols(elf: ELFFile) -> Iterator[Any]:
    """Yield the symbols that are not local: they stand last, from sh_info on (ELF, "Sections")."""
    table = _table(elf)
    if table is not None:
        yield from map(table.get_symbol, range(table["sh_info"], table.num_symbols()))


def _table(elf: ELFFile) -> SymbolTableSection | None:
    tables = map(elf.get_section_by_name, (".symtab", ".dynsym"))
    return next((each for each in tables if isinstance(each, SymbolTableSection)), None)
