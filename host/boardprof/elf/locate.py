# SPDX-License-Identifier: Apache-2.0
"""Which line of which file an address of an image belongs to."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elftools.dwarf.compileunit import CompileUnit
    from elftools.dwarf.dwarfinfo import DWARFInfo
    from elftools.elf.elffile import ELFFile

__all__ = ["Location", "Locator", "locate"]


@dataclass(frozen=True)
class Location:
    """A place in the sources.

    Attributes:
        path: of the file, as the compiler was given it; "" if only the function is known.
        line: counted from 1; 0 if not known.
        function: its name, None if not known.
    """

    path: str
    line: int
    function: str | None

    @property
    def is_agents(self) -> bool:
        """Whether it is a line of the agent or of what calls it, and not of a function."""
        name = self.function or posixpath.basename(self.path)  # its assembly has no functions
        return name.startswith("bp_") or name == "main"

    def __str__(self) -> str:
        """Return ``crash.c:12 (in crash)``."""
        place = f"{posixpath.basename(self.path)}:{self.line}" if self.line else ""
        inside = f"(in {self.function})" if self.function else ""
        return f"{place} {inside}".strip()


class Locator:
    """`locate` in one image, which is read when an address is asked for."""

    def __init__(self, image: Path) -> None:
        """Take the path of an ELF file: a program, position-independent or not, or a library."""
        self.image = image
        self._known: dict[int, Location | None] = {}

    def __call__(self, pc: int) -> Location | None:
        """Return where ``pc`` is, None if it is nowhere in the image."""
        if pc not in self._known:
            self._known[pc] = locate(self.image, pc)
        return self._known[pc]


def locate(image: Path, pc: int) -> Location | None:
    """Return where ``pc`` is in the sources, None if it is nowhere or nothing tells.

    Args:
        image: an ELF file, best with ``-g``.
        pc: an address in the file's own terms, whatever it was loaded at.
    """
    from elftools.elf.elffile import ELFFile

    try:
        with image.open("rb") as file:
            elf = ELFFile(file)
            function = _function_at(elf, pc)
            path, line = _line_at(elf, pc)
    except Exception:
        # pyelftools raises more than its own errors: of a damaged file, asserts and KeyErrors.
        return None  # that a place cannot be named must not hide what happened there
    if function is None and not line:
        return None
    return Location(path, line, function)


def _function_at(elf: ELFFile, pc: int) -> str | None:
    from elftools.elf.sections import SymbolTableSection

    table = elf.get_section_by_name(".symtab")
    if not isinstance(table, SymbolTableSection):
        return None
    thumb_bit = 1 if elf["e_machine"] == "EM_ARM" else 0
    for symbol in table.iter_symbols():
        if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_shndx"] != "SHN_UNDEF":
            begin = symbol["st_value"] & ~thumb_bit
            if begin <= pc < begin + symbol["st_size"]:
                name: str = symbol.name
                return name.partition(".")[0]  # GCC's clones: name.part.0
    return None


@dataclass(frozen=True)
class _Sequence:
    """A stretch of code without a gap: rows of (address, file, line), and where it ends."""

    program: Any
    rows: list[tuple[int, int, int]]
    end: int


def _line_at(elf: ELFFile, pc: int) -> tuple[str, int]:
    """Return path and line; "" and 0 if they are not known."""
    if not elf.has_dwarf_info():
        return "", 0
    dwarf = elf.get_dwarf_info()
    best: _Sequence | None = None
    comp_dir = ""
    for unit in _units_at(dwarf, pc):
        program = dwarf.line_program_for_CU(unit)
        if program is None:
            continue
        for sequence in _sequences(program):
            # The linker lets functions that it has thrown away begin at 0: the last one is right.
            begin = sequence.rows[0][0]
            if begin <= pc < sequence.end and (best is None or begin > best.rows[0][0]):
                best = sequence
                directory = unit.get_top_DIE().attributes.get("DW_AT_comp_dir")
                comp_dir = directory.value.decode(errors="replace") if directory else ""
    if best is None:
        return "", 0
    file, line = next((row[1], row[2]) for row in reversed(best.rows) if row[0] <= pc)
    return posixpath.join(comp_dir, _path(best.program, file)), line


def _units_at(dwarf: DWARFInfo, pc: int) -> Iterator[CompileUnit]:
    """Yield the units that may have the code at ``pc``: all of them, if no index tells."""
    ranges = dwarf.get_aranges()
    offsets = {
        entry.info_offset
        for entry in (ranges.entries if ranges is not None else ())
        if entry.begin_addr <= pc < entry.begin_addr + entry.length
    }
    if not offsets:
        yield from dwarf.iter_CUs()
    for offset in offsets:
        yield dwarf.get_CU_at(offset)


def _sequences(program: Any) -> Iterator[_Sequence]:
    rows: list[tuple[int, int, int]] = []
    for entry in program.get_entries():
        state = entry.state
        if state is None:
            continue
        if state.end_sequence:
            if rows:
                yield _Sequence(program, rows, state.address)
            rows = []
        elif state.line:  # 0: the compiler's own code, which belongs to the line before
            rows.append((state.address, state.file, state.line))


def _path(program: Any, index: int) -> str:
    """Return a file's path, with its folder if there is one."""
    header = program.header
    # DWARF counts both from 0 since version 5.
    first = 0 if header["version"] >= 5 else 1
    entry = header["file_entry"][index - first]
    folders = header["include_directory"]
    name: str = entry.name.decode(errors="replace")
    at = entry.dir_index - first
    folder = folders[at].decode(errors="replace") if 0 <= at < len(folders) else ""
    return posixpath.join(folder, name)
