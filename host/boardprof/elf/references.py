# SPDX-License-Identifier: Apache-2.0
"""Which functions of some objects need a symbol, be it through others: from relocations.

Each function has a section of its own (``-ffunction-sections``), so what a section refers to is
what the function in it needs. Where somebody else compiled without, a function needs what its
neighbours do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

from boardprof.elf.object_file import images, read_image

__all__ = ["functions_needing"]

_Section = tuple[int, int]  # which image, and the section's index in it


class _References:
    """What refers to what, in all images."""

    def __init__(self) -> None:
        self.defined: dict[str, _Section] = {}
        self.functions: dict[str, _Section] = {}
        self.uses: dict[_Section, dict[_Section | str, None]] = {}  # in the objects' order

    def read(self, number: int, elf: ELFFile) -> None:
        """Add an image."""
        table = elf.get_section_by_name(".symtab")
        if not isinstance(table, SymbolTableSection):
            return
        symbols = list(table.iter_symbols())
        for symbol in symbols:
            index, info = symbol["st_shndx"], symbol["st_info"]
            if isinstance(index, int) and info["bind"] != "STB_LOCAL":
                self.defined.setdefault(symbol.name, (number, index))
                if info["type"] == "STT_FUNC":
                    self.functions.setdefault(symbol.name, (number, index))
        for section in elf.iter_sections():
            if isinstance(section, RelocationSection):
                uses = self.uses.setdefault((number, section["sh_info"]), {})
                for relocation in section.iter_relocations():
                    symbol = symbols[relocation["r_info_sym"]]
                    index, bind = symbol["st_shndx"], symbol["st_info"]["bind"]
                    own = isinstance(index, int) and bind == "STB_LOCAL"
                    uses[(number, index) if own else symbol.name] = None

    def reached(self, function: str) -> Iterator[str]:
        """Yield the symbols that a function needs, itself or through others."""
        todo, seen = [self.functions[function]], {self.functions[function]}
        while todo:
            for target in self.uses.get(todo.pop(), ()):
                if isinstance(target, str):
                    yield target
                section = self.defined.get(target) if isinstance(target, str) else target
                if section is not None and section not in seen:
                    seen.add(section)
                    todo.append(section)


def functions_needing(objects: Sequence[Path], symbols: Collection[str]) -> dict[str, str]:
    """Return the global functions that need one of ``symbols`` -> which.

    Args:
        objects: ELF objects and static libraries.
        symbols: names that none of them defines.

    Raises:
        UsageError: a file is neither.
    """
    references = _References()
    every = (image for path in objects for image in images(path))
    for number, image in enumerate(every):
        read_image(image, partial(references.read, number))
    found = {}
    for function in sorted(references.functions):
        needed = next((s for s in references.reached(function) if s in symbols), None)
        if needed is not None:
            found[function] = needed
    return found
